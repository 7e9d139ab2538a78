"""Pictures of word games and of benchmarks, from the runs that count."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cory.config import GEOMETRIC_MEAN
from cory.report.figures.bars import bars_figure
from cory.report.figures.factor import Curve, factor_figure
from cory.report.figures.matrix import draw_matrix
from cory.report.figures.radar import radar_figure
from cory.report.figures.stages import Values, draw_stages
from cory.report.figures.style import legend, panels
from cory.report.paper import PAPER_SCALE, Table
from cory.report.records.benchmarks import COLUMNS, metric_of
from cory.report.records.collect import Collected
from cory.report.tables.matches import (
    INTERVAL,
    ITSELF,
    LENGTHS,
    cells_of,
    intervals,
    win_rates_of,
)
from cory.report.tables.numbers import last, runs_of
from cory.report.tables.reasoning import value_of

ROLES = {"mean of both roles": "", "as attacker": "_attacker", "as defender": "_defender"}


def matches(table: Table, found: Collected) -> Figure:
    """Panel by panel what the entry shows."""
    parts = {"win_rates": [_win_rates], "matrix": [_matrix], "lengths": [_turns, _tokens]}
    drawing = [draw for name in table.entry["shows"] for draw in parts[name]]
    figure, axes_list = panels(len(drawing), width=5.2, height=4.4)
    for draw, axes in zip(drawing, axes_list, strict=True):
        draw(axes, table, found)
    if "win_rates" in table.entry["shows"]:
        legend(figure, *axes_list)
    return figure


def _win_rates(axes: Axes, table: Table, found: Collected) -> None:
    lines = {
        name: _at_stages(table, found, f"eval/win_rate{part}", table.words["opponent"])
        for name, part in ROLES.items()
    }
    axis = f"win rate against {table.words['player']}"
    draw_stages(axes, lines, _labels(table), axis, even=0.5)


def _matrix(axes: Axes, table: Table, found: Collected) -> None:
    cells = cells_of(table, found)
    draw_matrix(axes, cells, _labels(table), "attacker", "defender", "win rate of the attacker")


def _turns(axes: Axes, table: Table, found: Collected) -> None:
    _length(axes, table, found, "game_turns")


def _tokens(axes: Axes, table: Table, found: Collected) -> None:
    _length(axes, table, found, "utterance_tokens")


def _length(axes: Axes, table: Table, found: Collected, kind: str) -> None:
    lines = {LENGTHS[kind]: _at_stages(table, found, f"eval/{kind}", ITSELF)}
    draw_stages(axes, lines, _labels(table), f"{LENGTHS[kind]}, against itself")


def _at_stages(table: Table, found: Collected, metric: str, opponent: str) -> dict[str, Values]:
    return {row["label"]: intervals(runs_of(found, row), metric, opponent) for row in table.rows}


def _labels(table: Table) -> list[str]:
    return [row["label"] for row in table.rows]


def benchmarks(table: Table, found: Collected) -> Figure | None:
    """Scores around a circle for a table with `axes`; without benchmarks, win rates as bars."""
    if table.scale == PAPER_SCALE:
        return _radar(table, found) if "axes" in table.entry else None
    kinds = ("both roles", "knowing the word", "looking for it")
    tasks: dict[str, dict[str, dict[str, list[float]]]] = {}
    for row in table.rows:
        measured = win_rates_of(runs_of(found, row), table.words["opponent"])
        for name, values in zip(kinds, measured, strict=True):
            if values:
                groups = tasks.setdefault(row.get("panel", ""), {})
                groups.setdefault(name, {})[row["label"]] = values
    axis = f"win rate against {table.words['player']}"
    return bars_figure(tasks, axis, guess=0.5) if tasks else None


def _radar(table: Table, found: Collected) -> Figure | None:
    """The rows that have a score on every axis."""
    tasks: dict[str, dict[str, Mapping[str, float]]] = {}
    for row in table.rows:
        runs = runs_of(found, row)
        values = {COLUMNS[name]: last(runs, metric_of(name)) for name in table.entry["axes"]}
        if all(values.values()):
            means = {name: float(np.mean(own)) for name, own in values.items()}
            tasks.setdefault(row.get("panel", ""), {})[row["label"]] = means
    return radar_figure(tasks) if tasks else None


def factor(table: Table, found: Collected) -> Figure | None:
    """The geometric mean over the factor; at a scale without benchmarks, win rates."""
    about = table.entry["factor"]
    own = table.scale == PAPER_SCALE
    parts = {"GM": ""} if own else ROLES
    curves: dict[str, dict[float, list[tuple[float, float, float]]]] = {}
    for row in table.rows:
        runs = runs_of(found, row)
        for name, part in parts.items():
            values = (
                [
                    _scored(run.lines[-1])
                    for run in runs
                    if metric_of(GEOMETRIC_MEAN) in run.lines[-1]
                ]
                if own
                else intervals(runs, f"eval/win_rate{part}", table.words["opponent"])
            )
            if values:
                curves.setdefault(name, {})[value_of(table, runs[0])] = values
    if not curves:
        return None
    shown: Mapping[str, Curve] = curves
    axis = "geometric mean over benchmarks" if own else (
        f"win rate against {table.words['player']}"
    )  # fmt: skip
    return factor_figure(shown, str(about["name"]), axis, bool(about["log"]))


def _scored(line: Mapping[str, float]) -> tuple[float, float, float]:
    """The geometric mean and its 95 % interval, of no width where no error is known."""
    value, width = (
        line[metric_of(GEOMETRIC_MEAN)],
        INTERVAL * line.get(metric_of(GEOMETRIC_MEAN, "_stderr"), 0.0),
    )
    return value, value - width, value + width
