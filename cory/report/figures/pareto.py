"""Task reward against KL, one point per KL coefficient (Ma et al., fig. 2(c))."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from cory.report.figures.style import COLOURS, MARKERS, dash, finish, legend, panels, require_styles


@dataclass(frozen=True)
class Point:
    """Where the runs of one method and one KL coefficient end."""

    label: str  # the coefficient, as written
    scores: Sequence[float]  # one per seed
    kls: Sequence[float]  # as many

    @property
    def mean(self) -> tuple[float, float]:
        """Mean task reward and mean negative KL."""
        return float(np.mean(self.scores)), -float(np.mean(self.kls))

    @property
    def spread(self) -> tuple[float, float] | None:
        """Sample standard deviations of both; None for a single seed."""
        if len(self.scores) < 2:
            return None
        return float(np.std(self.scores, ddof=1)), float(np.std(self.kls, ddof=1))


def frontier(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other one equals or betters in both numbers, by the first of them."""
    kept: list[tuple[float, float]] = []
    for x, y in sorted(set(points), reverse=True):
        if not kept or y > kept[-1][1]:
            kept.append((x, y))
    return kept[::-1]


def joint_labels(
    points: Sequence[Point], size: Sequence[float]
) -> list[tuple[tuple[float, float], str]]:
    """Places and texts, one text for points nearer than 3 % of the figure's `size` (x, y)."""
    groups: list[list[Point]] = []
    for point in points:
        for group in groups:
            apart = [abs(a - b) for a, b in zip(point.mean, group[0].mean, strict=True)]
            if all(gap <= 0.03 * whole for gap, whole in zip(apart, size, strict=True)):
                group.append(point)
                break
        else:
            groups.append([point])
    return [(group[0].mean, ", ".join(point.label for point in group)) for group in groups]


def pareto_figure(methods: Mapping[str, Sequence[Point]]) -> Figure:
    """Points with crosses of one standard deviation, and the frontier of each method.

    Points that are not on their method's frontier are hollow.
    """
    require_styles(list(methods))
    figure, (axes,) = panels(1, width=7.0, height=5.0)
    for number, (name, points) in enumerate(methods.items()):
        colour = COLOURS[number]
        edge = frontier([point.mean for point in points])
        axes.plot(
            *zip(*edge, strict=True),
            color=colour,
            linestyle=dash(number),
            linewidth=1.4,
            marker=MARKERS[number],
            markersize=7,
            label=name,
        )
        for point in points:
            x, y = point.mean
            if point.spread is not None:
                axes.errorbar(
                    x, y, xerr=point.spread[0], yerr=point.spread[1], color=colour, alpha=0.45,
                    linewidth=1, zorder=1,
                )  # fmt: skip
            if (x, y) not in edge:
                axes.plot(
                    [x], [y], color=colour, marker=MARKERS[number], markersize=7, fillstyle="none"
                )
    for number, points in enumerate(methods.values()):  # now that the axes are as wide as they get
        for place, label in joint_labels(points, axes.dataLim.size):
            axes.annotate(
                f"$\\eta$ = {label}", place, xytext=(6, 5 - 13 * (number % 2)),
                textcoords="offset points", fontsize=7.5, color=COLOURS[number],
            )  # fmt: skip
    axes.set_xlabel("task reward (score) at the end of training")
    axes.set_ylabel("negative KL divergence to the reference (nats)")
    axes.margins(0.12)
    finish(axes)
    legend(figure, axes)
    return figure
