"""Layout of tables of accuracies: methods by tasks, ours beside what the paper prints.

conf/paper/: an entry of kind `accuracy` has `columns`, what stands for {t} in the experiments of
its rows -> the task's name, and `problems`, how many an accuracy is taken over. A row's `printed`
holds for each column the printed accuracy and its standard error in per cent, and `wrong` behind
them where the accuracy has another standard error over so many problems. A row with `unsupported`
has no experiment: why nobody can run it here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cory.report.paper import ACCURACY, PAPER_SCALE, Table
from cory.report.records.collect import Collected
from cory.report.tables.markdown import NONE, markdown, percent
from cory.report.tables.numbers import head_of, last, names_of, runs_of, seeds_text

WRONG, IMPOSSIBLE = "†", "‡"
UNSUPPORTED = "not supported"
MEANINGS = {
    WRONG: "the standard error is wrong in print; behind the sign stands the one that this "
    "accuracy has over as many problems",
    IMPOSSIBLE: "no share of as many problems is this accuracy",
}
Row = dict[str, Any]


def accuracies(table: Table, found: Collected) -> list[str]:
    """What every method reaches on every task."""
    beside = table.scale == PAPER_SCALE and any(row.get("printed") for row in table.rows)
    columns = columns_of(table.rows)
    rows = []
    for own in grouped(table.rows):
        cells = []
        for column in columns:
            row = own.get(column)
            cells.append(NONE if row is None else measured(found, row))
            cells += [printed(table, row) for _ in range(beside)]
        rows.append([*names_of(next(iter(own.values()))), *cells, _seeds(table, found, own)])
    head = [
        part
        for column in columns
        for part in [table.columns[column], *[f"{table.columns[column]}, printed"] * beside]
    ]
    return [
        "Accuracy on held-out problems, mean ± sample standard deviation over seeds; in brackets "
        "the mean over seeds of its binomial standard error (SE), in points, which is what the "
        "paper's ± means.",
        markdown([*head_of(table), *head, "seeds"], rows),
        *(meanings(table) if beside else []),
    ]


def printed_block(table: Table) -> list[str]:
    """All that the paper prints, for a place where no runs are shown."""
    if table.kind != ACCURACY or table.scale != PAPER_SCALE:
        return []
    columns = columns_of(table.rows)
    rows = []
    for own in grouped(table.rows):
        if any(row.get("printed") for row in own.values()):
            first = next(iter(own.values()))
            here = said_unsupported(first) if "unsupported" in first else "not run"
            cells = [printed(table, own.get(column)) for column in columns]
            rows.append([*names_of(first), *cells, here])
    if not rows:
        return []
    head = [*head_of(table), *[table.columns[column] for column in columns], "here"]
    return [
        "Printed, accuracy in per cent ± standard error:",
        markdown(head, rows),
        *meanings(table),
    ]


def grouped(rows: Sequence[Row]) -> list[dict[str, Row]]:
    """The cells of each line of the table, by column."""
    lines: dict[tuple[Any, Any], dict[str, Row]] = {}
    for row in rows:
        lines.setdefault((row.get("panel"), row["label"]), {})[row["column"]] = row
    return list(lines.values())


def columns_of(rows: Sequence[Row]) -> list[str]:
    """The columns that the rows have, in their order."""
    return list(dict.fromkeys(row["column"] for row in rows))


def measured(found: Collected, row: Row) -> str:
    """Our number for one cell."""
    if "unsupported" in row:
        return said_unsupported(row)
    runs = runs_of(found, row)
    errors = last(runs, error_of(row["metric"]))
    bracket = f" (SE {100 * np.mean(errors):.1f})" if errors else ""
    return f"{percent(last(runs, row['metric']))}{bracket}"


def error_of(metric: str) -> str:
    """The metric of its standard error: eval/vote/turn_2 -> eval/vote_se/turn_2."""
    base, _, who = metric.rpartition("/")
    return f"{base}_se/{who}"


def said_unsupported(row: Row) -> str:
    """Why there is no number."""
    return f"{UNSUPPORTED}: {row['unsupported']}"


def printed(table: Table, row: Row | None) -> str:
    """The paper's number for one cell, with its doubts."""
    if row is None or not row.get("printed"):
        return NONE
    accuracy, error, *marks = row["printed"]
    problems = problems_of(table, row)
    signs = f" ({WRONG} {binomial_error(accuracy, problems):.2f})" if marks == ["wrong"] else ""
    signs += "" if possible(accuracy, problems) else f" {IMPOSSIBLE}"
    return f"{accuracy:.2f} ± {error:.2f}{signs}"


def problems_of(table: Table, row: Row) -> int:
    """How many problems the paper's accuracy is taken over."""
    return int(row.get("problems", {}).get(row["column"], table.entry["problems"]))


def binomial_error(accuracy: float, problems: int) -> float:
    """The standard error of a share, both in per cent."""
    share = accuracy / 100
    return 100 * math.sqrt(share * (1 - share) / problems)


def possible(accuracy: float, problems: int) -> bool:
    """Whether some number of right answers gives this per cent, rounded to two digits."""
    right = round(accuracy / 100 * problems)
    return abs(100 * right / problems - accuracy) < 0.0051


def meanings(table: Table) -> list[str]:
    """What the signs mean that stand in the table."""
    cells = " ".join(printed(table, row) for row in table.rows)
    meant = [f"{sign}: {text}." for sign, text in MEANINGS.items() if sign in cells]
    return [" ".join(meant)] if meant else []


def _seeds(table: Table, found: Collected, own: dict[str, Row]) -> str:
    """How many seeds count, for the whole line where it is the same everywhere."""
    texts = {
        table.columns[column]: seeds_text(table, found, row["experiment"])
        for column, row in own.items()
        if "experiment" in row
    }
    if len(set(texts.values())) <= 1:
        return next(iter(texts.values()), NONE)
    return "<br>".join(f"{name}: {text}" for name, text in texts.items())
