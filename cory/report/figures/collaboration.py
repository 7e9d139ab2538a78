"""How often agents of the toy game collaborate, turn by turn (Park et al., 2025, fig. 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cory.report.figures.style import COLOURS, MARKERS, dash, finish, legend, panels, require_styles

RED = 1  # of the colours: the agents that are trained together


def collaboration_figure(
    games: Mapping[str, Mapping[str, Sequence[float]]], together: str
) -> Figure:
    """One panel per game, one line per way of training; that of `together` solid red.

    games: name of the panel -> way of training -> probability of collaborating at turns 1, 2, ...
    """
    figure, axes_list = panels(len(games), width=4.6)
    for letter, axes, (name, curves) in zip("abcdef", axes_list, games.items(), strict=False):
        require_styles(list(curves))
        others = (number for number in count() if number != RED)
        for curve, probabilities in curves.items():
            joint = curve == together
            number = RED if joint else next(others)
            turns = range(1, len(probabilities) + 1)
            axes.plot(
                turns,
                probabilities,
                color=COLOURS[number],
                linestyle=dash(0 if joint else 1),
                linewidth=2.2 if joint else 1.6,
                marker=MARKERS[number],
                markevery=(number % 3, max(len(turns) // 6, 1)),
                markersize=4,
                label=curve,
            )
        axes.set_xlabel(f"turn\n({letter})")
        axes.set_title(name, fontsize=10)
        axes.set_ylim(0, 1.03)
        axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
        finish(axes)
    axes_list[0].set_ylabel("probability of collaborating")
    legend(figure, axes_list[0])
    return figure
