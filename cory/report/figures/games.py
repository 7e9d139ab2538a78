"""Pictures of word games and of benchmarks."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from cory.config import GEOMETRIC_MEAN, ITSELF
from cory.report.figures.bars import bars_figure
from cory.report.figures.heat import HeatPanel
from cory.report.figures.lines import Curve, LinePanel, estimated_curve
from cory.report.figures.palette import places
from cory.report.figures.radar import RadarPanel
from cory.report.figures.rows import by_group, by_method, with_runs
from cory.report.figures.style import Panel, figure_of
from cory.report.paper import PAPER_SCALE, Table
from cory.report.records.archive import Archived
from cory.report.records.benchmarks import BENCHMARK_COLUMNS, metric_of
from cory.report.records.collect import CountedRuns
from cory.report.tables.games import (
    LENGTHS,
    both_always_win,
    cells_of,
    rates,
    value_of,
    words_found,
)
from cory.report.tables.numbers import Estimate, PaperRow, intervals, last, runs_of

WIN_RATES = {"mean of both roles": "", "as attacker": "_attacker", "as defender": "_defender"}


def draw_matches(table: Table, found: CountedRuns) -> Figure:
    """Panel by panel what the entry shows; win rates also by the panels of the rows."""
    shows, panels = table.entry["shows"], list[Panel]()
    for part in shows:
        if part == "win_rates":
            panels += _win_rates(table, found)
        elif part == "matrix":
            panels.append(_matrix(table, found))
        else:
            for kind, name in LENGTHS.items():
                axis = f"{name}, against itself"
                own = {name: f"eval/{kind}"}
                panels.append(_stages(table.rows, found, own, ITSELF, axis))
    alone = shows == ["win_rates"]
    return figure_of(
        panels, width=5.2, height=4.6, legend="win_rates" in shows, direct=alone, level=alone
    )


def _win_rates(table: Table, found: CountedRuns) -> list[Panel]:
    axis = f"win rate against {table.words['player']}"
    metrics = {name: f"eval/win_rate{role}" for name, role in WIN_RATES.items()}
    stages: dict[str, list[PaperRow]] = {}
    for row in table.rows:
        stages.setdefault(row.get("panel", ""), []).append(row)
    return [
        _stages(rows, found, metrics, table.words["opponent"], axis, 0.5, 0, title)
        for title, rows in stages.items()
    ]


def _stages(
    rows: Sequence[PaperRow],
    found: CountedRuns,
    metrics: Mapping[str, str],
    opponent: str,
    axis: str,
    even: float | None = None,
    percent: int | None = None,
    title: str = "",
) -> LinePanel:
    """One line per metric over the checkpoints."""
    lines = {
        name: [intervals(runs_of(found, row), metric, opponent) for row in rows]
        for name, metric in metrics.items()
    }
    return stages_panel(lines, [row["label"] for row in rows], axis, even, percent, title)


def stages_panel(
    lines: Mapping[str, Sequence[Sequence[Estimate]]],
    names: Sequence[str],
    axis: str,
    even: float | None = None,
    percent: int | None = None,
    title: str = "",
) -> LinePanel:
    """A number at every stage of training, with thin lines of one standard deviation.

    With a single seed, these are its 95 % interval.

    lines: measure -> values of the seeds at each stage; a stage without any is left out
    """
    colours = places(list(lines))
    curves: list[Curve] = []
    for number, (name, at) in enumerate(lines.items()):
        beside = 0.05 * (number - (len(lines) - 1) / 2)
        points = {place + beside: values for place, values in enumerate(at) if values}
        look = {"markersize": 6}
        curves.append(
            estimated_curve(name, points, colours[name], look=look, band=0.0)
            if points
            else Curve(name, [], [], [], [], colours[name], look, 0.0)
        )
    ticks = dict(enumerate(names))
    return LinePanel(
        curves, "", axis, title, ticks=ticks, percent=percent, margins=(0.1, 0.05), even=even
    )


def _matrix(table: Table, found: CountedRuns) -> HeatPanel:
    """Who wins against whom (Cheng et al., fig. 4, right)."""
    return matrix_panel(cells_of(table, found), [row["label"] for row in table.rows])


def matrix_panel(
    cells: Mapping[tuple[str, str], Sequence[float]], names: Sequence[str]
) -> HeatPanel:
    """Means over seeds in per cent, below them one standard deviation."""

    def text(row: str, column: str) -> str:
        values = cells[row, column]
        spread = f"\n± {100 * np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
        return f"{100 * np.mean(values):.1f}{spread}"

    return HeatPanel(
        names,
        names,
        {cell: float(np.mean(values)) for cell, values in cells.items() if values},
        text,
        lambda row, column: "",
        "defender",
        "attacker",
        "win rate of the attacker",
        percent=True,
        fontsize=8.5,
    )


def draw_benchmarks(table: Table, found: CountedRuns) -> Figure | None:
    """Scores around a circle for a table with `axes`; without benchmarks, bars.

    They are win rates, or, of games that both players win, how often the word is found.
    """
    if table.scale == PAPER_SCALE:
        return _radar(table, found) if "axes" in table.entry else None
    if both_always_win(found.runs):
        shares = by_group(table, found, lambda row, runs: {"with itself": words_found(runs)})
        return bars_figure(shares, "share of games in which the word is found")
    kinds = rates(table.words["opponent"], ("both roles", "knowing the word", "looking for it"))

    def win_rates(row: PaperRow, runs: list[Archived]) -> dict[str, list[float]]:
        measured = {kind.head: last(runs, *kind.metrics) for kind in kinds}
        return {name: values for name, values in measured.items() if values}

    tasks = {name: own for name, own in by_group(table, found, win_rates).items() if own}
    axis = f"win rate against {table.words['player']}"
    return bars_figure(tasks, axis, guess=0.5) if tasks else None


def _radar(table: Table, found: CountedRuns) -> Figure | None:
    """The rows that have a score on every axis."""

    def scores(row: PaperRow, runs: list[Archived]) -> dict[str, float]:
        values = {
            BENCHMARK_COLUMNS[name]: last(runs, metric_of(name)) for name in table.entry["axes"]
        }
        if not all(values.values()):
            return {}
        return {name: float(np.mean(own)) for name, own in values.items()}

    panels = [RadarPanel(title, own) for title, own in by_method(table, found, scores).items()]
    return figure_of(panels, width=5.0, height=4.8, projection="polar") if panels else None


def draw_factor(table: Table, found: CountedRuns) -> Figure | None:
    """A score over one factor that was varied (Cheng et al., fig. 3)."""
    about, own = table.entry["factor"], table.scale == PAPER_SCALE
    axis = "geometric mean over benchmarks"
    measures = {"GM": (f"benchmark/{GEOMETRIC_MEAN}", "agent_0")}
    if not own:
        axis = f"win rate against {table.words['player']}"
        opponent = table.words["opponent"]
        measures = {name: (f"eval/win_rate{role}", opponent) for name, role in WIN_RATES.items()}
    curves: dict[str, dict[float, list[Estimate]]] = {}
    for _, runs in with_runs(table, found):
        for name, (metric, who) in measures.items():
            if values := intervals(runs, metric, who):
                curves.setdefault(name, {})[value_of(table, runs[0])] = values
    if max((len(points) for points in curves.values()), default=0) < 2:
        return None  # one value of a factor says nothing about it
    return factor_figure(curves, str(about["name"]), axis, bool(about["log"]))


def factor_figure(
    curves: Mapping[str, Mapping[float, Sequence[Estimate]]], name: str, axis: str, log: bool
) -> Figure:
    """One line per measure, over the values of the factor.

    name, axis: what the axes say
    log: whether the factor's axis is logarithmic
    """
    colours = places(list(curves))
    drawn = [
        estimated_curve(measure, points, colours[measure], look={"markersize": 6}, band=0.0)
        for measure, points in curves.items()
    ]
    every = sorted({x for points in curves.values() for x in points})
    ticks = {x: f"{x / 1000:g}K" if x >= 1000 else f"{x:g}" for x in every}
    across = f"{name}{' (log scale)' if log else ''}"
    panel = LinePanel(drawn, across, axis, ticks=ticks, log=10 if log else 0, percent=0)
    return figure_of([panel], width=6.2, legend=len(curves) > 1, direct=len(curves) > 1)
