"""The bar figure: groups of bars side by side, or shares stacked along one bar."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from cory.report.figures.style import COLOURS, figure_of, finish

# what is measured -> method -> a value per seed
Groups = Mapping[str, Mapping[str, Sequence[float]]]
HATCHES = ("", "//")  # a second round of the colours is hatched
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
            "label": self.label, "error_kw": {"elinewidth": 1, "ecolor": DARK},
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

    def draw(self, axes: Axes) -> None:
        """Draw every bar."""
        for bar in self.bars:
            bar.draw(axes, self.horizontal)
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
            axes.set_ylabel(self.axis)
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


def bars_figure(tasks: Mapping[str, Groups], axis: str, guess: float | None = None) -> Figure:
    """One panel per task; in it a group of bars per measure, a bar per method.

    tasks: title of a panel, perhaps empty -> groups
    guess: the value that guessing reaches, a dashed line
    """
    names = list(
        dict.fromkeys(name for groups in tasks.values() for own in groups.values() for name in own)
    )
    most = max(len(groups) for groups in tasks.values())
    thickness = 0.8 / len(names)
    panels = []
    for task, groups in tasks.items():
        bars = [
            Bar(
                name,
                place + (names.index(name) - (len(names) - 1) / 2) * thickness,
                values,
                COLOURS[names.index(name) % len(COLOURS)],
                thickness * 0.94,
                hatch=HATCHES[names.index(name) // len(COLOURS) % len(HATCHES)],
            )
            for place, own in enumerate(groups.values())
            for name, values in own.items()
            if values
        ]
        panels.append(BarPanel(bars, list(groups), axis, task, line=guess))
    width = max(4.5, 0.22 * len(names) * most + 0.35 * most + 1.2)
    return figure_of(panels, width=width, height=4.4)


def _wrapped(name: str) -> str:
    """A tick's label on two lines."""
    before, comma, after = name.partition(", ")
    return f"{before},\n{after}" if comma else name.replace(" ", "\n", 1)
