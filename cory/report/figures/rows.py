"""The numbers of a figure, from the rows of a table: panel by panel, method by method."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cory.report.paper import Table
from cory.report.records.archive import Archived
from cory.report.records.collect import CountedRuns
from cory.report.tables.numbers import PaperRow, runs_of

Tasks = dict[str, dict[str, Any]]  # title of a panel, perhaps empty -> method or group -> numbers


def by_method(
    table: Table, found: CountedRuns, numbers: Callable[[PaperRow, list[Archived]], Any]
) -> Tasks:
    """Panel -> method -> the result of `numbers`; methods without a result are left out."""
    tasks: Tasks = {}
    for row in table.rows:
        if own := numbers(row, runs_of(found, row)):
            tasks.setdefault(row.get("panel", ""), {})[row["label"]] = own
    return tasks


def by_group(
    table: Table,
    found: CountedRuns,
    *groups: Callable[[PaperRow, list[Archived]], Mapping[str, list[float]]],
) -> Tasks:
    """Panel -> group of bars -> method -> a value per seed, of the rows that have runs.

    groups: of a row and its runs, the values in each group; the groups of the first come first
    """
    tasks: Tasks = {}
    for values_of in groups:
        for row, runs in with_runs(table, found):
            own = tasks.setdefault(row.get("panel", ""), {})
            for name, values in values_of(row, runs).items():
                own.setdefault(name, {})[row["label"]] = values
    return tasks


def with_runs(table: Table, found: CountedRuns) -> Iterable[tuple[PaperRow, list[Archived]]]:
    """The rows that have something to draw."""
    return ((row, runs) for row in table.rows if (runs := runs_of(found, row)))
