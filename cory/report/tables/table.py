"""The one renderer of tables: lines are rows of conf/paper/, columns are data.

A column reads metrics of a line's runs and writes the values of the seeds. `{word}` in a metric is
filled in from the line, which is how one column serves every agent, turn or iteration.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cory.report.paper import Table
from cory.report.records.archive import Archived
from cory.report.records.collect import CountedRuns, lacking
from cory.report.tables.markdown import markdown, percent, plus_minus
from cory.report.tables.numbers import (
    PaperRow,
    agent_label,
    agents_in_metrics,
    at_end,
    last,
    lines_of,
    runs_of,
)


@dataclass(frozen=True)
class TableLine:
    """One line of a table."""

    names: list[str]  # its first cells
    row: PaperRow
    runs: list[Archived]
    words: Mapping[str, Any] = field(default_factory=dict)  # who or what of the row it is about


@dataclass(frozen=True)
class Column:
    """How one cell of every line is made: from metrics, or else by `text`."""

    head: str
    metrics: tuple[str, ...] = ()
    form: Callable[[Sequence[float]], str] = percent
    read: Callable[..., list[float]] = last
    text: Callable[[TableLine], str] | None = None

    def cell(self, line: TableLine) -> str:
        """What stands in a line under this heading."""
        if self.text is not None:
            return self.text(line)
        metrics = [metric.format(**line.words) for metric in self.metrics]
        values = self.read(line.runs, *metrics)
        return self.form(values) + of_fewer(values, line.runs)


def of_fewer(values: Sequence[Any], runs: Sequence[Archived]) -> str:
    """Behind a cell's text: over how many seeds it is, where some of the runs have no value."""
    return f" (n = {len(values)})" if 0 < len(values) < len(runs) else ""


# runs of a row -> first cells and words of its lines
Axis = Callable[[PaperRow, list[Archived]], Iterable[tuple[list[str], dict[str, Any]]]]


def once(row: PaperRow, runs: list[Archived]) -> Iterable[tuple[list[str], dict[str, Any]]]:
    """One line for each row."""
    yield names_of(row), {}


def over_agents(row: PaperRow, runs: list[Archived]) -> Iterable[tuple[list[str], dict[str, Any]]]:
    """One line for each agent; a single one, without an agent, where nothing was run."""
    agents = agents_in_metrics(lines_of(runs))
    for agent in agents:
        yield [agent_label(row["label"], agent, agents)], {"agent": agent}
    if not agents:
        yield [row["label"]], {"agent": ""}


def lines(rows: Iterable[PaperRow], found: CountedRuns, axis: Axis = once) -> list[TableLine]:
    """The lines of all rows."""
    return [
        TableLine(names, row, runs_of(found, row), words)
        for row in rows
        for names, words in axis(row, runs_of(found, row))
    ]


def render(head: Sequence[str], body: Iterable[TableLine], columns: Sequence[Column]) -> str:
    """The table as Markdown; `head`: headings of the lines' names."""
    cells = [[*line.names, *(column.cell(line) for column in columns)] for line in body]
    return markdown([*head, *(column.head for column in columns)], cells)


def share(head: str, *metrics: str) -> Column:
    """The last values as per cent."""
    return Column(head, metrics)


def number(head: str, *metrics: str) -> Column:
    """The last values as they are."""
    return Column(head, metrics, plus_minus)


def trained(names: Mapping[str, str], table: Table, who: str = "{agent}") -> list[Column]:
    """Means over the last window of training. names: metric -> heading."""
    read = partial(at_end, window=table.window)
    return [Column(head, (f"{metric}/{who}",), plus_minus, read) for metric, head in names.items()]


def seeds(table: Table, found: CountedRuns) -> Column:
    """How many seeds count, and which do not."""
    return Column("seeds", text=lambda line: seeds_text(table, found, line.row["experiment"]))


def seeds_text(table: Table, found: CountedRuns, experiment: str) -> str:
    """The same for one experiment."""
    gaps = lacking(table, found, experiment)
    return "; ".join(filter(None, [str(len(found.counted[experiment])), gaps]))


def head_of(table: Table, label: str = "method") -> list[str]:
    """The headings of a row's names; label: what its label names."""
    return [str(table.entry["panels"]), label] if "panels" in table.entry else [label]


def names_of(row: PaperRow) -> list[str]:
    """Its panel, where the table has panels, and its label."""
    return [row["panel"], row["label"]] if "panel" in row else [row["label"]]
