"""Pictures of what fine-tuning does to teams that debate."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from cory.report.figures.bars import bars_figure
from cory.report.figures.debates import over_steps
from cory.report.figures.lines import Curve, per_panel
from cory.report.figures.notes import Note
from cory.report.figures.rows import by_method, with_runs
from cory.report.figures.style import Panel, figure_of
from cory.report.paper import Table
from cory.report.records.archive import Archived
from cory.report.records.collect import CountedRuns
from cory.report.tables.numbers import Estimate, PaperRow, at_iterations, last


def _mean(values: Sequence[Estimate]) -> float:
    return float(np.mean([value for value, _, _ in values]))


Points = list[tuple[float, float, int]]  # x, y, iteration


def draw_accuracies(table: Table, found: CountedRuns) -> Figure | None:
    """A panel per model, in it a group of bars per task, a bar per method."""
    panels: dict[str, dict[str, dict[str, list[float]]]] = {}
    printed: dict[tuple[str, str, str], float] = {}
    for row, runs in with_runs(table, found):
        if values := last(runs, row["metric"]):
            groups = panels.setdefault(row.get("panel", ""), {})
            group = table.columns[row["column"]]
            groups.setdefault(group, {})[row["label"]] = values
            if row.get("printed"):
                printed[row.get("panel", ""), group, row["label"]] = row["printed"][0] / 100
    axis = "accuracy on held-out problems"
    return bars_figure(panels, axis, printed=printed) if panels else None


def draw_iterations(table: Table, found: CountedRuns) -> Figure | None:
    """A line per method over fine-tuning iterations, a panel per model."""
    tasks = by_method(table, found, lambda row, runs: at_iterations(runs, row["metric"]))
    axis = table.entry["axis"]
    if not tasks:
        return None
    known: dict[str, dict[str, dict[int, float]]] = {}
    for row, _ in with_runs(table, found):
        numbers = {int(step): float(value) / 100 for step, value in row.get("printed", {}).items()}
        known.setdefault(row.get("panel", ""), {})[row["label"]] = numbers
    name, share = axis["name"], bool(axis["share"])
    return over_steps(tasks, "fine-tuning iteration", name, share, printed=known)


def draw_scatter(table: Table, found: CountedRuns) -> Figure | None:
    """One number against another, a point per iteration, a panel per model.

    A thin line joins a method's iterations.
    """

    def points(row: PaperRow, runs: list[Archived]) -> Points:
        across, up = (at_iterations(runs, row[key]) for key in ("across", "metric"))
        return [(_mean(across[step]), _mean(up[step]), step) for step in across if step in up]

    def drawn(name: str, own: Points, number: int) -> list[Panel]:
        look = {"markersize": 6, "linewidth": 0.7, "linestyle": "dotted"}
        line = Curve(name, [x for x, _, _ in own], [y for _, y, _ in own], colour=number, look=look)
        return [line, *(Note(str(step), (x, y), number) for x, y, step in own)]

    tasks = by_method(table, found, points)
    if not tasks:
        return None
    names = str(table.entry["across"]), table.entry["axis"]["name"]
    panels = per_panel(tasks, drawn, *names, steps=(), percent=0, margins=(0.1, 0.1))
    return figure_of(panels, width=5.2, height=4.6, direct=False)
