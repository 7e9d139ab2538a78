"""Skills of models that learn from their own right answers (Subramaniam et al., App. G)."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cory.report.figures.style import COLOURS, MARKERS, dash, finish, legend, panels, require_styles


def skills_figure(models: Sequence[Sequence[Sequence[float]]]) -> Figure:
    """One panel per model, one line per topic.

    models: [model][iteration][topic], as `cory.functional.skills.trajectories` gives them
    """
    topics = len(models[0][0])
    require_styles(range(topics))
    figure, axes_list = panels(len(models), height=3.8)
    for number, (axes, skills) in enumerate(zip(axes_list, models, strict=True), 1):
        iterations = range(len(skills))
        for topic, curve in enumerate(zip(*skills, strict=True)):
            axes.plot(
                iterations,
                curve,
                color=COLOURS[topic],
                linestyle=dash(topic),
                linewidth=1.8,
                marker=MARKERS[topic],
                markevery=(topic, max(len(skills) // 6, 1)),
                markersize=4,
                label=f"topic {chr(ord('A') + topic)}",
            )
        axes.set_title(f"model {number}", fontsize=10)
        axes.set_xlabel("iteration")
        axes.set_ylim(-0.03, 1.03)
        axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
        finish(axes)
    axes_list[0].set_ylabel("skill")
    legend(figure, axes_list[0])
    return figure
