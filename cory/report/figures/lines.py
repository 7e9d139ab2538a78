"""The line figure: curves with bands or error bars, points with notes, over any axis."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, PercentFormatter

from cory.report.figures.palette import places
from cory.report.figures.style import (
    MARKERS,
    PALETTE,
    Panel,
    dash,
    finish,
    legend_name,
    middle_and_band,
)
from cory.report.tables.numbers import Estimate

SUBTLE = 0.13  # opacity of bands


@dataclass(frozen=True)
class Curve:
    """A line; where its ends are known, with a band around it or with error bars."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    colour: int = 0  # its place among PALETTE and MARKERS
    look: Mapping[str, Any] = field(default_factory=dict)  # what else the line looks like
    band: float = SUBTLE  # opacity; 0: error bars instead of a band

    def draw(self, axes: Axes) -> None:
        """Draw it."""
        colour = PALETTE[self.colour]
        look = {"color": colour, "marker": MARKERS[self.colour], "linewidth": 1.6, **self.look}
        if self.label:
            look["label"] = legend_name(self.label)
        if self.low is None or self.high is None:
            axes.plot(self.x, self.y, **look)
        elif self.band:
            axes.plot(self.x, self.y, **look)
            axes.fill_between(
                self.x, self.low, self.high, color=colour, alpha=self.band, linewidth=0
            )
        else:
            below = [max(y - low, 0.0) for y, low in zip(self.y, self.low, strict=True)]
            above = [max(high - y, 0.0) for y, high in zip(self.y, self.high, strict=True)]
            axes.errorbar(self.x, self.y, yerr=[below, above], elinewidth=1, capsize=2, **look)


@dataclass(frozen=True)
class Cross:
    """The standard deviations of a point, in both directions."""

    place: tuple[float, float]
    spread: tuple[float, float]
    colour: int

    def draw(self, axes: Axes) -> None:
        """Draw it below all lines."""
        (x, y), (wide, high) = self.place, self.spread
        colour = PALETTE[self.colour]
        axes.errorbar(x, y, xerr=wide, yerr=high, color=colour, alpha=0.45, linewidth=1, zorder=1)


@dataclass(frozen=True)
class LinePanel:
    """One panel of curves, and what else is drawn among them."""

    curves: Sequence[Panel]
    x: str = ""  # what the axes say
    y: str = ""
    title: str = ""
    ticks: Mapping[Any, str] | None = None  # of the x axis; else steps of whole numbers
    steps: Sequence[float] = (1, 2, 5, 10)
    log: float = 0  # base of the x axis, 0: not logarithmic
    percent: int | None = None  # decimals of shares on the y axis; None: plain numbers
    limits: tuple[float, float] | None = None  # of the y axis
    margins: tuple[float, float] | None = None  # beside and above the curves
    even: float | None = None  # the value of guessing, or of a draw: a dashed line

    def draw(self, axes: Axes) -> None:
        """Draw every curve."""
        for curve in self.curves:
            curve.draw(axes)
        if self.even is not None:
            axes.axhline(self.even, color="#555555", linewidth=1, linestyle="dashed")
        if self.log:
            axes.set_xscale("log", base=self.log)
        if self.ticks is not None:
            axes.xaxis.set_major_locator(FixedLocator(list(self.ticks)))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_xticks(list(self.ticks), list(self.ticks.values()))
        elif self.steps:
            axes.xaxis.set_major_locator(MaxNLocator("auto", steps=self.steps, integer=True))
        if self.percent is not None:
            axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=self.percent))
            # no ticks at halves of a per cent, which would be rounded up and down
            axes.yaxis.set_major_locator(MaxNLocator("auto", steps=(1, 2, 5, 10)))
        if self.limits is not None:
            axes.set_ylim(*self.limits)
        if self.margins:
            axes.margins(*self.margins)
        axes.set_xlabel(self.x)
        axes.set_ylabel(folded(self.y))
        axes.set_title(self.title, fontsize=10)
        finish(axes)


def folded(name: str) -> str:
    """What a y axis says, on several lines where it would be longer than the axis."""
    return "\n".join(wrap(name, 38, break_long_words=False))


def estimated_curve(
    label: str, points: Mapping[Any, Sequence[Estimate]], number: int, **more: Any
) -> Curve:
    """A curve of means over seeds, with a band of one standard deviation.

    With a single seed, the band is its 95 % interval.

    points: x -> the values of the seeds
    """
    xs = sorted(points)
    middle, low, high = zip(*(middle_and_band(points[x]) for x in xs), strict=True)
    return Curve(label, xs, middle, low, high, number, **more)


def printed_points(values: Mapping[Any, float], colour: int) -> Curve:
    """What the paper prints, as stars. values: x -> number"""
    xs = sorted(values)
    look = {"linestyle": "none", "marker": "*", "markersize": 11, "markeredgecolor": "black",
            "markeredgewidth": 0.6}  # fmt: skip
    return Curve("", xs, [values[x] for x in xs], colour=colour, look=look)


def marked(number: int, points: int, dashes: int, width: float = 1.6) -> dict[str, Any]:
    """A line with few markers, at other places for each line: a second way to tell them apart."""
    every = (number, max(points // 6, 1))
    return {"linestyle": dash(dashes), "markevery": every, "markersize": 4, "linewidth": width}


def per_panel(
    tasks: Mapping[str, Mapping[str, Any]],
    curves: Callable[[str, Any, int], Sequence[Panel]],
    x: str,
    y: str,
    **more: Any,
) -> list[LinePanel]:
    """One panel per task, one line per method, in the same colour everywhere.

    tasks: title of a panel, perhaps empty -> method -> what `curves` makes lines of, with the
        method's name and number
    """
    colours = places([name for methods in tasks.values() for name in methods])
    panels = []
    for task, methods in tasks.items():
        parts = [curves(name, own, colours[name]) for name, own in methods.items()]
        panels.append(LinePanel([part for own in parts for part in own], x, y, task, **more))
    return panels
