"""Shares as bars, side by side: agents alone beside their team, qualities of verifiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from cory.report.figures.style import COLOURS, finish, legend, panels

# what is measured -> method -> a value per seed
Groups = Mapping[str, Mapping[str, Sequence[float]]]
HATCHES = ("", "//")  # a second round of the colours is hatched


def bars_figure(tasks: Mapping[str, Groups], axis: str, guess: float | None = None) -> Figure:
    """One panel per task; in it a group of bars per measure, a bar per method.

    The thin lines are one standard deviation over seeds.

    tasks: title of a panel, perhaps empty -> groups
    axis: what the y axis says
    guess: a value that is worth nothing, drawn as a dashed line
    """
    names = list(
        dict.fromkeys(name for groups in tasks.values() for own in groups.values() for name in own)
    )
    most = max(len(groups) for groups in tasks.values())
    width = max(4.5, 0.22 * len(names) * most + 0.35 * most + 1.2)
    figure, axes_list = panels(len(tasks), width=width, height=4.4)
    for axes, (task, groups) in zip(axes_list, tasks.items(), strict=True):
        thickness = 0.8 / len(names)
        for place, own in enumerate(groups.values()):
            for name, values in own.items():
                if not values:
                    continue
                number = names.index(name)
                axes.bar(
                    place + (number - (len(names) - 1) / 2) * thickness,
                    float(np.mean(values)),
                    width=thickness * 0.94,
                    yerr=float(np.std(values, ddof=1)) if len(values) > 1 else None,
                    color=COLOURS[number % len(COLOURS)],
                    hatch=HATCHES[number // len(COLOURS) % len(HATCHES)],
                    edgecolor="white",
                    linewidth=0,
                    label=name,
                    error_kw={"elinewidth": 1, "ecolor": "#555555"},
                )
        if guess is not None:
            axes.axhline(guess, color="#555555", linewidth=1, linestyle="dashed")
        axes.set_xticks(range(len(groups)), [_wrapped(name) for name in groups], fontsize=8.5)
        axes.set_ylabel(axis)
        axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
        axes.set_title(task, fontsize=10)
        axes.set_axisbelow(True)
        finish(axes)
        axes.grid(axis="x", visible=False)
    legend(figure, *axes_list)
    return figure


def _wrapped(name: str) -> str:
    """A tick's label on two lines."""
    before, comma, after = name.partition(", ")
    return f"{before},\n{after}" if comma else name.replace(" ", "\n", 1)
