"""Scores on several benchmarks around a circle (Cheng et al., fig. 1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from cory.report.figures.style import COLOURS, dash, legend, panels, require_styles


def radar_figure(tasks: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Figure:
    """One panel per base model; every axis ends at the largest value on it.

    tasks: title of a panel -> method -> benchmark -> mean over seeds
    """
    figure, flat = panels(len(tasks), width=5.0, height=4.8)
    for number, (axes, (task, methods)) in enumerate(zip(flat, tasks.items(), strict=True)):
        require_styles(list(methods))
        axes.remove()
        axes = figure.add_subplot(1, len(tasks), number + 1, projection="polar")
        names = list(dict.fromkeys(name for scores in methods.values() for name in scores))
        most = {name: max(own.get(name, 0.0) for own in methods.values()) for name in names}
        angles = [2 * math.pi * place / len(names) for place in range(len(names))]
        for place, (method, scores) in enumerate(methods.items()):
            heights = [scores.get(name, math.nan) / most[name] for name in names]
            axes.plot(
                _closed(angles), _closed(heights), color=COLOURS[place], linewidth=1.5,
                linestyle=dash(place % 3), label=method,
            )  # fmt: skip
        axes.set_xticks(angles, [f"{name}\n{100 * most[name]:.1f}" for name in names], fontsize=8)
        drawn = [own[name] / most[name] for own in methods.values() for name in own]
        axes.set_ylim(max(0.0, min(drawn) - 0.05), 1.0)
        axes.tick_params(axis="y", labelsize=6)
        axes.set_title(task, fontsize=10)
    legend(figure, *figure.axes)
    return figure


def _closed(values: Sequence[float]) -> list[float]:
    """The same with the first once more at the end."""
    return [*values, values[0]]
