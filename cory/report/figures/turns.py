"""A number over turns of a debate (Park et al., fig. 2) or over fine-tuning iterations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, PercentFormatter

from cory.report.figures.style import (
    COLOURS,
    MARKERS,
    dash,
    finish,
    legend,
    middle_and_band,
    panels,
)

# turn -> per seed: value, lower and upper end of its 95 % interval
Votes = Mapping[int, Sequence[tuple[float, float, float]]]


def turns_figure(
    tasks: Mapping[str, Mapping[str, Votes]],
    x: str = "turn of the debate",
    y: str = "accuracy of the majority vote",
    share: bool = True,
) -> Figure:
    """One panel per task, one line per method, in the same colour everywhere.

    The band is one standard deviation over seeds; with a single seed, its 95 % interval.

    tasks: title of a panel, perhaps empty -> method -> votes
    x, y: what the axes say
    share: whether the numbers are shares, shown as per cent
    """
    figure, axes_list = panels(len(tasks), width=max(4.6, 7.0 / len(tasks)), height=4.6)
    names = list(dict.fromkeys(name for methods in tasks.values() for name in methods))
    for axes, (task, methods) in zip(axes_list, tasks.items(), strict=True):
        for name, votes in methods.items():
            number = names.index(name)
            first = number < len(COLOURS)  # further methods: the same colours, dashed and hollow
            turns = sorted(votes)
            middle, low, high = zip(*(middle_and_band(votes[turn]) for turn in turns), strict=True)
            colour = COLOURS[number % len(COLOURS)]
            axes.plot(
                turns, middle, color=colour, linestyle=dash(number // len(COLOURS)),
                marker=MARKERS[number % len(MARKERS)], markersize=6, linewidth=1.6,
                fillstyle="full" if first else "none", label=name,
            )  # fmt: skip
            axes.fill_between(turns, low, high, color=colour, alpha=0.12, linewidth=0)
        every = sorted({turn for votes in methods.values() for turn in votes})
        axes.xaxis.set_major_locator(FixedLocator(every))
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        if share:
            axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
        axes.set_title(task, fontsize=10)
        axes.margins(x=0.08)
        finish(axes)
    legend(figure, *axes_list)
    return figure
