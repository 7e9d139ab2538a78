"""One number against another, a point per fine-tuning iteration (Subramaniam et al., fig. 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from cory.report.figures.style import COLOURS, MARKERS, finish, legend, panels, require_styles

# (x, y, the iteration), in order of the iterations
Points = Sequence[tuple[float, float, int]]


def scatter_figure(tasks: Mapping[str, Mapping[str, Points]], x: str, y: str) -> Figure:
    """One panel per task, one colour per method; a thin line joins a method's iterations.

    tasks: title of a panel, perhaps empty -> method -> points; y is a share
    x, y: what the axes say
    """
    names = list(dict.fromkeys(name for methods in tasks.values() for name in methods))
    require_styles(names)
    figure, axes_list = panels(len(tasks), width=5.2, height=4.4)
    for axes, (task, methods) in zip(axes_list, tasks.items(), strict=True):
        for name, points in methods.items():
            number = names.index(name)
            axes.plot(
                [point[0] for point in points],
                [point[1] for point in points],
                color=COLOURS[number], marker=MARKERS[number], markersize=6, linewidth=0.7,
                linestyle="dotted", label=name,
            )  # fmt: skip
            for across, up, iteration in points:
                axes.annotate(
                    str(iteration), (across, up), textcoords="offset points", xytext=(5, 4),
                    fontsize=8, color=COLOURS[number],
                )  # fmt: skip
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
        axes.set_title(task, fontsize=10)
        axes.margins(0.1)
        finish(axes)
    legend(figure, *axes_list)
    return figure
