"""Results of tables of accuracies: methods by tasks, ours beside what the paper prints.

conf/paper/: an entry of kind `accuracy` has `columns`, what stands for {t} in the experiments of
its rows -> the task's name, and `problems`, how many an accuracy is taken over. A row's `printed`
holds for each column the printed accuracy and its standard error in per cent, and `wrong` behind
them where the accuracy has another standard error over so many problems. A row with `unsupported`
has no experiment: why nobody can run it here.
"""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from cory.report.paper import PAPER_SCALE, Table
from cory.report.records.collect import CountedRuns
from cory.report.tables.markdown import DASH, percent
from cory.report.tables.numbers import PaperRow, last, runs_of
from cory.report.tables.table import (
    Column,
    TableLine,
    head_of,
    names_of,
    of_fewer,
    render,
    seeds_text,
)

WRONG, IMPOSSIBLE = "†", "‡"
UNSUPPORTED = "not supported"
SIGNS = {
    WRONG: "the standard error is wrong in print; behind the sign stands the one that this "
    "accuracy has over as many problems",
    IMPOSSIBLE: "no share of as many problems is this accuracy",
}


def accuracies_results(table: Table, found: CountedRuns) -> list[str]:
    """What every method reaches on every task."""
    beside = table.scale == PAPER_SCALE and any(row.get("printed") for row in table.rows)
    columns = []
    for task in tasks_of(table.rows):
        columns.append(Column(table.columns[task], text=partial(_measured_in, found, task)))
        columns += [_printed_in(table, task, ", printed")] if beside else []
    columns.append(Column("seeds", text=partial(_seeds, table, found)))
    return [
        "Accuracy on held-out problems, mean ± sample standard deviation over seeds; in brackets "
        "the mean over seeds of its binomial standard error (SE), in points, which is what the "
        "paper's ± means.",
        render(head_of(table), methods(table.rows), columns),
        *(meaning_of_signs(table) if beside else []),
    ]


def printed_accuracies(table: Table) -> list[str]:
    """All that the paper prints, for a place where no runs are shown."""
    if table.scale != PAPER_SCALE:
        return []
    body = [line for line in methods(table.rows) if any(r["printed"] for r in line.words.values())]
    if not body:
        return []

    def here(line: TableLine) -> str:
        return said_unsupported(line.row) if "unsupported" in line.row else "not run"

    columns = [_printed_in(table, task) for task in tasks_of(table.rows)]
    return [
        "Printed, accuracy in per cent ± standard error:",
        render(head_of(table), body, [*columns, Column("here", text=here)]),
        *meaning_of_signs(table),
    ]


def methods(rows: Sequence[PaperRow]) -> list[TableLine]:
    """A line for each method of each model; its words: task -> the row of that cell."""
    own: dict[tuple[str, ...], dict[str, PaperRow]] = {}
    for row in rows:
        own.setdefault(tuple(names_of(row)), {})[row["column"]] = row
    return [
        TableLine([*names], next(iter(cells.values())), [], cells) for names, cells in own.items()
    ]


def tasks_of(rows: Sequence[PaperRow]) -> list[str]:
    """The tasks that the rows have, in their order."""
    return list(dict.fromkeys(row["column"] for row in rows))


def _measured_in(found: CountedRuns, task: str, line: TableLine) -> str:
    return measured_accuracy(found, line.words[task]) if task in line.words else DASH


def _printed_in(table: Table, task: str, suffix: str = "") -> Column:
    def text(line: TableLine) -> str:
        return printed(table, line.words.get(task, {}))

    return Column(f"{table.columns[task]}{suffix}", text=text)


def measured_accuracy(found: CountedRuns, row: PaperRow) -> str:
    """Our number for one cell."""
    if "unsupported" in row:
        return said_unsupported(row)
    runs = runs_of(found, row)
    base, _, who = row["metric"].rpartition("/")
    values, errors = last(runs, row["metric"]), last(runs, f"{base}_se/{who}")
    bracket = f" (SE {100 * np.mean(errors):.1f})" if errors else ""
    return f"{percent(values)}{bracket}{of_fewer(values, runs)}"


def said_unsupported(row: PaperRow) -> str:
    """Why there is no number."""
    return f"{UNSUPPORTED}: {row['unsupported']}"


def printed(table: Table, row: PaperRow) -> str:
    """The paper's number for one cell, with its doubts."""
    if not row.get("printed"):
        return DASH
    accuracy, error, *marks = row["printed"]
    # over how many problems the paper's accuracy is taken
    problems = int(row.get("problems", {}).get(row["column"], table.entry["problems"]))
    signs = f" ({WRONG} {binomial_error(accuracy, problems):.2f})" if marks == ["wrong"] else ""
    signs += "" if possible(accuracy, problems) else f" {IMPOSSIBLE}"
    return f"{accuracy:.2f} ± {error:.2f}{signs}"


def binomial_error(accuracy: float, problems: int) -> float:
    """The standard error of a share, both in per cent."""
    share = accuracy / 100
    return 100 * math.sqrt(share * (1 - share) / problems)


def possible(accuracy: float, problems: int) -> bool:
    """Whether some number of right answers gives this per cent, rounded to two digits."""
    right = round(accuracy / 100 * problems)
    return abs(100 * right / problems - accuracy) < 0.0051


def meaning_of_signs(table: Table) -> list[str]:
    """What the signs mean that stand in the table."""
    cells = " ".join(printed(table, row) for row in table.rows)
    meant = [f"{sign}: {text}." for sign, text in SIGNS.items() if sign in cells]
    return [" ".join(meant)] if meant else []


def _seeds(table: Table, found: CountedRuns, line: TableLine) -> str:
    """How many seeds count, for the whole line where it is the same everywhere."""
    texts = {
        table.columns[task]: seeds_text(table, found, row["experiment"])
        for task, row in line.words.items()
        if "experiment" in row
    }
    if len(set(texts.values())) <= 1:
        return next(iter(texts.values()), DASH)
    return "<br>".join(f"{name}: {text}" for name, text in texts.items())
