"""Results of pages about fine-tuning iterations: one number over them, or one against another.

conf/paper/: a row names an experiment whose runs are evaluated after every iteration, and a
`metric`; of kind `scatter` also `across`, the metric that the points lie across. `axis` says what
the metric is called and whether it is a share, `across` of an entry what `across` is called.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from cory.report.paper import PAPER_SCALE, Table
from cory.report.records.archive import Archived
from cory.report.records.collect import CountedRuns
from cory.report.tables.markdown import DASH, percent, plus_minus
from cory.report.tables.numbers import Estimate, PaperRow, at_iterations, correlations
from cory.report.tables.table import (
    Column,
    TableLine,
    head_of,
    lines,
    names_of,
    of_fewer,
    render,
    seeds,
)


def iterations_results(table: Table, found: CountedRuns) -> list[str]:
    """One metric after every iteration."""
    body = lines(table.rows, found, _over_curve)
    steps = sorted({step for line in body for step in line.words["curve"]})

    def at(step: int, line: TableLine) -> str:
        return value_text(table, line, line.words["curve"].get(step, []))

    columns = [Column(f"iteration {step}", text=partial(at, step)) for step in steps]
    if table.scale == PAPER_SCALE and any("printed" in row for row in table.rows):
        columns.append(PRINTED)
    name = str(table.entry["axis"]["name"])
    return [
        f"{name[:1].upper()}{name[1:]} after each fine-tuning iteration, mean ± sample "
        "standard deviation over seeds.",
        render(head_of(table), body, [*columns, seeds(table, found)]),
    ]


def _over_curve(row: PaperRow, runs: list[Archived]) -> list[tuple[list[str], dict[str, Any]]]:
    return [(names_of(row), {"curve": at_iterations(runs, row["metric"])})]


def scatter_results(table: Table, found: CountedRuns) -> list[str]:
    """Both metrics after every iteration, and how they go together."""

    def over_iterations(
        row: PaperRow, runs: list[Archived]
    ) -> list[tuple[list[str], dict[str, Any]]]:
        across, up = (at_iterations(runs, row[key]) for key in ("across", "metric"))
        return [
            ([*names_of(row), str(step)], {"across": across[step], "up": up[step]})
            for step in sorted(across.keys() & up.keys())
        ] or [([*names_of(row), DASH], {"across": [], "up": []})]

    def across_text(line: TableLine) -> str:
        values = line.words["across"]
        return plus_minus([value for value, _, _ in values], 3) + of_fewer(values, line.runs)

    def up_text(line: TableLine) -> str:
        return value_text(table, line, line.words["up"])

    def correlation(line: TableLine) -> str:
        values = correlations(line.runs, line.row)
        return plus_minus(values) + of_fewer(values, line.runs)

    columns = [
        Column(str(table.entry["across"]), text=across_text),
        Column(table.entry["axis"]["name"], text=up_text),
        Column("correlation", text=correlation),
        seeds(table, found),
    ]
    body = lines(table.rows, found, over_iterations)
    return [
        "Mean ± sample standard deviation over seeds. Correlation: Pearson's, over the iterations "
        "of each seed.",
        render([*head_of(table), "iteration"], body, columns),
    ]


def printed_curves(table: Table) -> list[str]:
    """What the paper's text says of a curve, for a place where no runs are shown."""
    body = [TableLine(names_of(row), row, []) for row in table.rows if "printed" in row]
    if not body or table.scale != PAPER_SCALE:
        return []
    return [render(head_of(table), body, [PRINTED])]


def _printed(line: TableLine) -> str:
    """The numbers that the paper's text prints for a curve."""
    numbers = line.row.get("printed", {}).items()
    return ", ".join(f"iteration {step}: {value:.1f} %" for step, value in numbers) or DASH


PRINTED = Column("printed", text=_printed)


def value_text(table: Table, line: TableLine, values: Sequence[Estimate]) -> str:
    """Values of the line's seeds as text."""
    plain = [value for value, _, _ in values]
    text = percent(plain) if table.entry["axis"]["share"] else plus_minus(plain, 3)
    return text + of_fewer(values, line.runs)
