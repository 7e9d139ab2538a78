"""Numbers of the runs behind a row: the values of its seeds, and how many seeds count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cory.report.claims.judge import measure
from cory.report.figures.curves import agent_label, agents_of
from cory.report.paper import Table
from cory.report.records.archive import Archived
from cory.report.records.collect import Collected, lacking


def runs_of(found: Collected, row: dict[str, Any]) -> list[Archived]:
    """The runs of a row, by seed."""
    seeds = found.counted[row["experiment"]]
    return [seeds[seed] for seed in sorted(seeds)]


def agents_in(runs: Sequence[Archived]) -> list[str]:
    """The agents of a row's runs."""
    return agents_of([line for run in runs for line in run.lines])


def at_end(runs: Sequence[Archived], metric: str, window: int) -> list[float]:
    """The mean over the last window of each run that trained and has the metric."""
    having = [run for run in runs if any(metric in line for line in run.lines)]
    return [measure(run.lines, metric, "final", window) for run in having]


def last(runs: Sequence[Archived], metric: str) -> list[float]:
    """The last value of each run that has the metric."""
    values = [[line[metric] for line in run.lines if metric in line] for run in runs]
    return [float(own[-1]) for own in values if own]


def estimates(runs: Sequence[Archived], metric: str, who: str) -> list[tuple[float, float, float]]:
    """Per seed: the last value, and both ends of its interval."""
    columns = [last(runs, f"{metric}{part}/{who}") for part in ("", "_low", "_high")]
    return list(zip(*columns, strict=True))


def seeds_text(table: Table, found: Collected, experiment: str) -> str:
    """How many seeds count, and which do not."""
    gaps = lacking(table, found, experiment)
    return "; ".join(filter(None, [str(len(found.counted[experiment])), gaps]))


def labelled(table: Table, found: Collected) -> Iterator[tuple[dict[str, Any], str, str | None]]:
    """Row, label and agent, for every agent of every row; agent None where nothing was run."""
    for row in table.rows:
        agents = agents_in(runs_of(found, row))
        if not agents:
            yield row, row["label"], None
        for agent in agents:
            yield row, agent_label(row["label"], agent, agents), agent


def head_of(table: Table) -> list[str]:
    """The headings of a row's names."""
    return [str(table.entry["panels"]), "method"] if "panels" in table.entry else ["method"]


def names_of(row: dict[str, Any]) -> list[str]:
    """Its panel, where the table has panels, and its label."""
    return [row["panel"], row["label"]] if "panel" in row else [row["label"]]
