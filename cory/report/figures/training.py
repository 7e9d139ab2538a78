"""Pictures of training runs: curves, frontiers, pass@k, grid searches."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from cory.report.figures.heat import HeatPanel
from cory.report.figures.lines import Cross, Curve, LinePanel, estimated_curve, printed_points
from cory.report.figures.notes import Note, Notes
from cory.report.figures.page_curves import page_curves
from cory.report.figures.palette import looks, renamed
from cory.report.figures.style import Panel, figure_of
from cory.report.paper import Table
from cory.report.records.archive import Archived
from cory.report.records.collect import CountedRuns
from cory.report.tables.numbers import (
    agent_label,
    agents_in_metrics,
    at_end,
    estimates,
    lines_of,
    named,
    runs_of,
)
from cory.report.tables.table import lines, over_agents
from cory.report.tables.training import SCORES, end_points, frontier


def draw_runs(table: Table, found: CountedRuns) -> Figure:
    """Training curves, over iterations or over sampled responses."""
    groups = {row["label"]: runs_of(found, row) for row in table.rows}
    runs = {label: [run.lines for run in own] for label, own in groups.items() if own}
    if table.entry.get("x", "iterations") == "iterations":
        return page_curves(runs, table.window)
    responses = {label: responses_of(groups[label][0]) for label in runs}
    return page_curves(runs, table.window, responses)


def responses_of(run: Archived) -> int:
    """Responses that one iteration takes, of all agents together."""
    algorithm = run.settings["algorithm"]
    return int(algorithm["prompts_per_iteration"]) * int(algorithm.get("agents", 1))


@dataclass(frozen=True)
class EndPoint:
    """Where the runs of one method and one KL coefficient end."""

    label: str  # the coefficient, as written
    scores: Sequence[float]  # one per seed
    kls: Sequence[float]  # as many

    @property
    def mean(self) -> tuple[float, float]:
        """Mean task reward and mean negative KL."""
        return float(np.mean(self.scores)), -float(np.mean(self.kls))

    @property
    def spread(self) -> tuple[float, float]:
        """Sample standard deviations of both; 0 for a single seed."""
        several = len(self.scores) > 1
        score, kl = (np.std(own, ddof=1) if several else 0.0 for own in (self.scores, self.kls))
        return float(score), float(kl)


def joint_labels(
    points: Sequence[EndPoint], size: Sequence[float]
) -> list[tuple[tuple[float, float], str]]:
    """Places and texts, one text for points nearer than 3 % of the figure's `size` (x, y)."""
    groups: list[list[EndPoint]] = []
    for point in points:
        for group in groups:
            apart = [abs(a - b) for a, b in zip(point.mean, group[0].mean, strict=True)]
            if all(gap <= 0.03 * whole for gap, whole in zip(apart, size, strict=True)):
                group.append(point)
                break
        else:
            groups.append([point])
    return [(group[0].mean, ", ".join(point.label for point in group)) for group in groups]


def draw_pareto(table: Table, found: CountedRuns) -> Figure:
    """Task reward against KL, one point per KL coefficient (Ma et al., fig. 2(c))."""
    methods: dict[str, list[EndPoint]] = {}
    for line in lines(table.rows, found, over_agents):
        if line.words["agent"]:
            point = EndPoint(line.row["eta"], *end_points(table, line))
            methods.setdefault(renamed(line.names[0]), []).append(point)
    return pareto_figure(methods)


def pareto_figure(methods: dict[str, list[EndPoint]]) -> Figure:
    """Points with crosses of one standard deviation, and the frontier of each method.

    Points that are not on their method's frontier are hollow.
    """
    parts: list[Panel] = []
    styles = looks(list(methods))
    for name, points in methods.items():
        number = styles[name].place
        edge = frontier([point.mean for point in points])
        x, y = zip(*edge, strict=True)
        look = {**styles[name].line, "linewidth": 1.4, "markersize": 7}
        parts.append(Curve(name, x, y, colour=number, look=look))
        hollow = {**look, "fillstyle": "none"}
        for point in points:
            if any(point.spread):
                parts.append(Cross(point.mean, point.spread, number))
            if point.mean not in edge:
                (x_off, y_off) = point.mean
                parts.append(Curve("", [x_off], [y_off], colour=number, look=hollow))
    every = [point for points in methods.values() for point in points]
    ends = [np.add(p.mean, sign * np.array(p.spread)) for p in every for sign in (-1, 1)]
    size = np.nanmax(ends, axis=0) - np.nanmin(ends, axis=0)
    texts = [
        Note(f"$\\eta$ = {label}", place, styles[name].place, size=7.5)
        for name, points in methods.items()
        for place, label in joint_labels(points, size)
    ]
    parts.append(Notes(texts, [point.mean for point in every]))
    panel = LinePanel(
        parts,
        "task reward (score) at the end of training",
        "negative KL divergence to the reference (nats)",
        steps=(),
        margins=(0.12, 0.12),
    )
    return figure_of([panel], width=7.0, height=5.0)


def draw_pass_at_k(table: Table, found: CountedRuns) -> Figure | None:
    """The share of problems that are passed with k tries, over k (Ma et al., fig. 5)."""
    kinds = {
        "eval/any_of_": "one of k responses right",
        "eval/pass_at_": "pass@k (unbiased estimate)",
    }
    panels = []
    for prefix, name in kinds.items():
        methods, printed = {}, dict[str, dict[int, float]]()
        for row in table.rows:
            runs = runs_of(found, row)
            agents = agents_in_metrics(lines_of(runs))
            for who in [*agents, "team"]:
                ks = [int(k) for k in named(lines_of(runs), rf"{prefix}(\d+)/{who}")]
                label = renamed(agent_label(row["label"], who, agents))
                if ks:
                    label = f"{row['label']}, team" if who == "team" else label
                    if row.get("printed") and who == agents[0]:
                        printed[label] = {1: float(row["printed"])}
                    methods[label] = {k: estimates(runs, f"{prefix}{k}", who) for k in ks}
        if methods:
            panels.append(pass_panel(methods, name, printed))
    return figure_of(panels, width=5.0, letters=True, direct=True) if panels else None


def pass_panel(
    methods: dict[str, dict[int, list[tuple[float, float, float]]]],
    name: str,
    printed: Mapping[str, Mapping[int, float]] | None = None,
) -> LinePanel:
    """One kind of estimate.

    methods: label -> k -> the values of the seeds
    printed: label -> k -> what the paper prints
    """
    styles = looks(list(methods))
    own: list[Panel] = [
        estimated_curve(
            label,
            {k * 1.03 ** (number - len(methods) // 2): values for k, values in rates.items()},
            styles[label].place,
            band=0.0,
            look={**styles[label].line, "markersize": 5},
        )
        for number, (label, rates) in enumerate(methods.items())
    ]
    own += [printed_points(at, styles[label].place) for label, at in (printed or {}).items()]
    ks = sorted({k for rates in methods.values() for k in rates})
    ticks = {k: str(k) for k in ks}
    return LinePanel(
        own, "k, responses per problem (log scale)", name, ticks=ticks, log=2, percent=0
    )


def draw_grid(table: Table, found: CountedRuns) -> Figure:
    """Learning rate against KL coefficient (Ma et al., App. A.1), a panel per number."""
    cells = {(row["lr"], row["eta"]): runs_of(found, row) for row in table.rows}
    rates, etas = (list(dict.fromkeys(cell[axis] for cell in cells)) for axis in (0, 1))
    panels = []
    for metric, name in SCORES.items():
        means = {
            cell: float(np.mean(at_end(runs, f"{metric}/agent_0", table.window)))
            for cell, runs in cells.items()
            if runs
        }
        panels.append(grid_panel(rates, etas, means, name, less_is_better="kl" in metric))
    return figure_of(panels, width=4.6, height=3.6, letters=True, legend=False)


def grid_panel(
    rates: Sequence[str],
    etas: Sequence[str],
    means: dict[tuple[str, str], float],
    name: str,
    less_is_better: bool = False,
) -> HeatPanel:
    """One number of a grid search."""
    return HeatPanel(
        rates,
        etas,
        means,
        lambda rate, eta: f"{means[rate, eta]:.2f}",
        lambda rate, eta: "diverged" if math.isnan(means.get((rate, eta), 0.0)) else "not run",
        "KL coefficient $\\eta$",
        "learning rate $\\alpha$",
        f"{name}; light: {'low' if less_is_better else 'high'}",
        less_is_better=less_is_better,
    )
