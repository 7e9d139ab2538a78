"""Pictures of what fine-tuning does to teams that debate, from the runs that count."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from cory.report.figures.bars import bars_figure
from cory.report.figures.scatter import scatter_figure
from cory.report.figures.turns import Votes, turns_figure
from cory.report.paper import Table
from cory.report.records.collect import Collected
from cory.report.tables.iterations import Values, at_iterations
from cory.report.tables.numbers import last, runs_of


def accuracies(table: Table, found: Collected) -> Figure | None:
    """A panel per model, in it a group of bars per task, a bar per method."""
    panels: dict[str, dict[str, dict[str, list[float]]]] = {}
    for row in table.rows:
        values = last(runs_of(found, row), row["metric"]) if "experiment" in row else []
        if values:
            groups = panels.setdefault(row.get("panel", ""), {})
            groups.setdefault(table.columns[row["column"]], {})[row["label"]] = values
    return bars_figure(panels, "accuracy on held-out problems") if panels else None


def iterations(table: Table, found: Collected) -> Figure | None:
    """A line per method over fine-tuning iterations, a panel per model."""
    panels: dict[str, dict[str, Votes]] = {}
    for row in table.rows:
        curve = at_iterations(runs_of(found, row), row["metric"])
        if curve:
            panels.setdefault(row.get("panel", ""), {})[row["label"]] = curve
    axis = table.entry["axis"]
    if not panels:
        return None
    return turns_figure(panels, "fine-tuning iteration", axis["name"], bool(axis["share"]))


def scatter(table: Table, found: Collected) -> Figure | None:
    """A point per iteration, a panel per model."""
    panels: dict[str, dict[str, list[tuple[float, float, int]]]] = {}
    for row in table.rows:
        runs = runs_of(found, row)
        across, up = (at_iterations(runs, row[key]) for key in ("across", "metric"))
        points = [(_mean(across[step]), _mean(up[step]), step) for step in across if step in up]
        if points:
            panels.setdefault(row.get("panel", ""), {})[row["label"]] = points
    if not panels:
        return None
    return scatter_figure(panels, str(table.entry["across"]), table.entry["axis"]["name"])


def _mean(values: Sequence[tuple[float, float, float]] | Values) -> float:
    return float(np.mean([value for value, _, _ in values]))
