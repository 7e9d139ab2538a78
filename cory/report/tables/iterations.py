"""Layouts of pages about fine-tuning iterations: one number over them, or one against another.

conf/paper/: a row names an experiment whose runs are evaluated after every iteration, and a
`metric`; of kind `scatter` also `across`, the metric that the points lie across. `axis` says what
the metric is called and whether it is a share, `across` of an entry what `across` is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cory.report.claims.judge import Absent, measure
from cory.report.paper import PAPER_SCALE, Table
from cory.report.records.archive import Archived
from cory.report.records.collect import Collected
from cory.report.tables.markdown import NONE, markdown, percent, plus_minus
from cory.report.tables.numbers import head_of, names_of, runs_of, seeds_text

# per seed: value, lower and upper end of its 95 % interval (the value itself where none is known)
Values = list[tuple[float, float, float]]
Row = dict[str, Any]
ENDS = ("low", "high")


def at_iterations(runs: Sequence[Archived], metric: str) -> dict[int, Values]:
    """Iterations done (0: not fine-tuned) -> the evaluations of all seeds after them."""
    base, _, who = metric.rpartition("/")
    found: dict[int, Values] = {}
    for run in runs:
        for line in run.lines:
            if metric in line:
                value = float(line[metric])
                low, high = (float(line.get(f"{base}_{end}/{who}", value)) for end in ENDS)
                done = int(line["iteration"]) + 1 if run.record["iterations"] else 0
                found.setdefault(done, []).append((value, low, high))
    return dict(sorted(found.items()))


def iterations(table: Table, found: Collected) -> list[str]:
    """One metric after every iteration."""
    curves = [at_iterations(runs_of(found, row), row["metric"]) for row in table.rows]
    steps = sorted({step for curve in curves for step in curve})
    beside = table.scale == PAPER_SCALE and any("printed" in row for row in table.rows)
    rows = []
    for row, curve in zip(table.rows, curves, strict=True):
        cells = [said(table, curve.get(step, [])) for step in steps]
        cells += [printed(row) for _ in range(beside)]
        rows.append([*names_of(row), *cells, seeds_text(table, found, row["experiment"])])
    head = [f"iteration {step}" for step in steps] + ["printed"] * beside
    return [
        f"{_capital(table.entry['axis']['name'])} after each fine-tuning iteration, mean ± sample "
        "standard deviation over seeds.",
        markdown([*head_of(table), *head, "seeds"], rows),
    ]


def scatter(table: Table, found: Collected) -> list[str]:
    """Both metrics after every iteration, and how they go together."""
    rows = []
    for row in table.rows:
        runs = runs_of(found, row)
        across, up = (at_iterations(runs, row[key]) for key in ("across", "metric"))
        both = plus_minus(correlations(runs, row))
        seeds = seeds_text(table, found, row["experiment"])
        for step in sorted(across.keys() & up.keys()):
            pair = [plus_minus([v for v, _, _ in across[step]], 3), said(table, up[step])]
            rows.append([*names_of(row), str(step), *pair, both, seeds])
        if not across.keys() & up.keys():
            rows.append([*names_of(row), NONE, NONE, NONE, both, seeds])
    head = [
        *head_of(table), "iteration", str(table.entry["across"]), table.entry["axis"]["name"],
        "correlation", "seeds",
    ]  # fmt: skip
    return [
        "Mean ± sample standard deviation over seeds. Correlation: Pearson's, over the iterations "
        "of each seed.",
        markdown(head, rows),
    ]


def correlations(runs: Sequence[Archived], row: Row) -> list[float]:
    """Per seed; none of a seed where a metric does not vary."""
    found = []
    for run in runs:
        try:
            found.append(measure(run.lines, row["metric"], "correlation", 1, row["across"]))
        except Absent:
            continue
    return found


def printed_block(table: Table) -> list[str]:
    """What the paper's text says of a curve, for a place where no runs are shown."""
    rows = [[*names_of(row), printed(row)] for row in table.rows if "printed" in row]
    if not rows or table.scale != PAPER_SCALE:
        return []
    return [markdown([*head_of(table), "printed"], rows)]


def printed(row: Row) -> str:
    """The numbers that the paper's text prints for a curve."""
    numbers = row.get("printed", {}).items()
    return ", ".join(f"iteration {step}: {value:.1f} %" for step, value in numbers) or NONE


def said(table: Table, values: Values) -> str:
    """Values of all seeds as text."""
    plain = [value for value, _, _ in values]
    return percent(plain) if table.entry["axis"]["share"] else plus_minus(plain, 3)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
