"""The bar figure: groups of bars side by side, or shares stacked along one bar."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from cory.report.figures.lines import folded
from cory.report.figures.palette import places
from cory.report.figures.style import PALETTE, figure_of, finish, legend_name

# what is measured -> method -> a value per seed
Groups = Mapping[str, Mapping[str, Sequence[float]]]
HATCHES = ("", "//", "..", "xx", "\\\\")  # neighbours differ in print without colours, too
DARK = "#555555"


@dataclass(frozen=True)
class Bar:
    """One bar: the mean over seeds, with a thin line of one standard deviation."""

    label: str
    place: float
    values: Sequence[float]
    colour: str
    thickness: float
    base: float = 0.0
    deviation: bool = True
    hatch: str = ""
    text: str = ""  # written inside
    ink: str = "black"

    def draw(self, axes: Axes, horizontal: bool) -> None:
        """Draw it."""
        value = float(np.mean(self.values))
        drawn = self.deviation and len(self.values) > 1
        spread = float(np.std(self.values, ddof=1)) if drawn else None
        look: dict[str, Any] = {
            "color": self.colour, "hatch": self.hatch, "edgecolor": "white", "linewidth": 0,
            "label": legend_name(self.label), "error_kw": {"elinewidth": 1, "ecolor": DARK},
        }  # fmt: skip
        if horizontal:
            axes.barh(self.place, value, left=self.base, height=self.thickness, xerr=spread, **look)
        else:
            axes.bar(self.place, value, bottom=self.base, width=self.thickness, yerr=spread, **look)
        if self.text:
            middle = self.base + value / 2
            x, y = (middle, self.place) if horizontal else (self.place, middle)
            axes.text(x, y, self.text, ha="center", va="center", color=self.ink, fontsize=8)


@dataclass(frozen=True)
class BarPanel:
    """One panel of bars."""

    bars: Sequence[Bar]
    ticks: Sequence[str]
    axis: str  # what the axis of the values says
    title: str = ""
    horizontal: bool = False
    line: float | None = None  # the value of guessing, or of no change
    dashed: bool = True
    symbol: str = "%"
    limits: tuple[float, float] | None = None
    grid: bool = True
    named: bool = True  # whether the ticks' labels are shown
    printed: Sequence[tuple[float, float]] = ()  # place and value of what the paper prints

    def draw(self, axes: Axes) -> None:
        """Draw every bar."""
        for bar in self.bars:
            bar.draw(axes, self.horizontal)
        for place, value in self.printed:
            at = (value, place) if self.horizontal else (place, value)
            axes.plot(*at, marker="*", markersize=11, color="white", markeredgecolor="black")
        percent = PercentFormatter(xmax=1, decimals=0, symbol=self.symbol)
        places = range(len(self.ticks))
        if self.horizontal:
            axes.set_yticks(places, list(self.ticks))
            axes.set_ylim(len(self.ticks) - 0.5, -0.5)
            axes.xaxis.set_major_formatter(percent)
            axes.set_xlabel(self.axis)
            axes.tick_params(axis="y", labelleft=self.named)
        else:
            axes.set_xticks(places, [_wrapped(name) for name in self.ticks], fontsize=8.5)
            axes.yaxis.set_major_formatter(percent)
            axes.set_ylabel(folded(self.axis))
        if self.line is not None:
            draw_line = axes.axvline if self.horizontal else axes.axhline
            look = {"linewidth": 1, "linestyle": "dashed"} if self.dashed else {"linewidth": 0.8}
            draw_line(self.line, color=DARK, **look)
        if self.limits is not None:
            axes.set_xlim(*self.limits)
        axes.set_title(self.title, fontsize=10)
        axes.set_axisbelow(True)
        finish(axes)
        axes.grid(axis="y" if self.horizontal else "x", visible=False)
        if not self.grid:
            axes.grid(visible=False)


def bars_figure(
    tasks: Mapping[str, Groups],
    axis: str,
    guess: float | None = None,
    printed: Mapping[tuple[str, str, str], float] | None = None,
) -> Figure:
    """One panel per task; in it a group of bars per measure, a bar per method.

    Where every panel has one group, its bars lie, and are named beside the axis.

    tasks: title of a panel, perhaps empty -> groups
    guess: the value that guessing reaches, a dashed line
    printed: panel, group and method -> what the paper prints, a star
    """
    known = printed or {}
    if all(len(groups) == 1 for groups in tasks.values()):
        return _lying(tasks, axis, guess, known)
    names = list(
        dict.fromkeys(name for groups in tasks.values() for own in groups.values() for name in own)
    )
    most = max(len(groups) for groups in tasks.values())
    thickness = 0.8 / len(names)
    colours = places(names)
    panels = []

    def beside(place: int, name: str) -> float:
        return place + (names.index(name) - (len(names) - 1) / 2) * thickness

    for task, groups in tasks.items():
        bars = [
            Bar(
                name,
                beside(place, name),
                values,
                PALETTE[colours[name]],
                thickness * 0.94,
                hatch=HATCHES[names.index(name) % len(HATCHES)],
            )
            for place, own in enumerate(groups.values())
            for name, values in own.items()
            if values
        ]
        stars = [
            (beside(place, name), known[task, group, name])
            for place, (group, own) in enumerate(groups.items())
            for name in own
            if (task, group, name) in known
        ]
        panels.append(BarPanel(bars, list(groups), axis, task, line=guess, printed=stars))
    width = max(4.5, 0.22 * len(names) * most + 0.35 * most + 1.2)
    return figure_of(panels, width=width, height=4.4)


def _lying(
    tasks: Mapping[str, Groups],
    axis: str,
    guess: float | None,
    printed: Mapping[tuple[str, str, str], float],
) -> Figure:
    """A bar per method, the first on top, without a legend."""
    panels = []
    for task, groups in tasks.items():
        ((group, own),) = groups.items()
        names = [name for name, values in own.items() if values]
        colours = places(names)
        bars = [
            Bar("", place, own[name], PALETTE[colours[name]], 0.7)
            for place, name in enumerate(names)
        ]
        stars = [
            (place, printed[task, group, name])
            for place, name in enumerate(names)
            if (task, group, name) in printed
        ]
        title = ", ".join(filter(None, [task, group]))
        ticks = [folded(name) for name in names]
        panels.append(
            BarPanel(bars, ticks, axis, title, horizontal=True, line=guess, printed=stars)
        )
    most = max(len(panel.ticks) for panel in panels)
    return figure_of(panels, width=6.2, height=1.7 + 0.42 * most, legend=False)


def _wrapped(name: str) -> str:
    """A tick's label on two lines."""
    before, comma, after = name.partition(", ")
    return f"{before},\n{after}" if comma else name.replace(" ", "\n", 1)
