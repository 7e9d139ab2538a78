"""Figures of tables (scripts/papers.py): curves with a band over seeds, points, scatter."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from papers import ITERATION, Numbers

from cory.report.plots import MARKERS, SMOOTH, STYLE, add_legend, curve, panels, save

LONG = 2 * SMOOTH  # iterations above which lines are running means
WIDTH = 6.5  # inches: at most 720 pixels, the width of a page


def draw_table(numbers: Numbers, path: Path) -> None:
    """Draw a table's figure into a PNG."""
    figure = numbers.table.figure
    columns = [column for column in figure.columns if column in numbers.columns]
    with mpl.rc_context(STYLE):
        drawing, axes = panels(len(columns) if figure.kind == "curves" else 1)
        if figure.kind == "curves":
            draw_curves(numbers, columns, axes)
        elif figure.kind == "points":
            drawing.set_figheight(0.9 + 0.24 * len(numbers.rows) * (1 + 0.4 * (len(columns) > 1)))
            draw_points(numbers, columns, axes[0])
        else:
            draw_scatter(numbers, columns, axes[0])
        drawing.set_figwidth(min(WIDTH, drawing.get_figwidth()))
        add_legend(drawing, axes)
        longest = max(len(line.get_xdata()) for panel in axes for line in panel.get_lines())
        notes = [
            "tiny models stand in for all that are named" if numbers.scale == "small" else "",
            f"thick: running means over {SMOOTH} iterations" if longest > LONG else "",
        ]
        told = "; ".join(filter(None, notes))
        drawing.suptitle(told, x=0.99, ha="right", fontsize=7, color="#777777")
        save(drawing, path)


def draw_curves(numbers: Numbers, columns: Sequence[str], axes: Sequence[Axes]) -> None:
    """A panel for each column, a line for each row; iterations count from 1, as on the pages."""
    start = int(numbers.table.figure.over == ITERATION)  # the archive counts them from 0
    for panel, column in zip(axes, columns, strict=True):
        for number, row in enumerate(numbers.rows):
            lines = numbers.curve_of(row, column)
            if not lines.empty:
                lines = lines.assign(iteration=lines.iteration + start)
                by_seed = (own.set_index("iteration").value for _, own in lines.groupby("seed"))
                smooth = SMOOTH if lines.iteration.nunique() > LONG else 1
                curve(panel, list(by_seed), number, smooth=smooth).set_label(row.name)
        panel.set_title(numbers.table.figure.name or column, fontsize=9)
        panel.set_xlabel(numbers.table.figure.over)
        panel.xaxis.set_major_locator(MaxNLocator(5, integer=True))


def draw_points(numbers: Numbers, columns: Sequence[str], axes: Axes) -> None:
    """A line of the page for each row, a point for each column; whiskers: standard deviations."""
    for number, column in enumerate(columns):
        values = [numbers.values[row.name, column] for row in numbers.rows]
        known = [(place, seeds) for place, seeds in enumerate(values) if not seeds.empty]
        y = [place + 0.22 * (number - (len(columns) - 1) / 2) for place, _ in known]
        axes.errorbar(
            [seeds.mean() for _, seeds in known], y, xerr=[seeds.std() for _, seeds in known],
            fmt=MARKERS[number], color=f"C{number}", label=column, markersize=5, elinewidth=1.2,
        )  # fmt: skip
    axes.set_yticks(range(len(numbers.rows)), [row.name for row in numbers.rows])
    axes.invert_yaxis()
    if len(columns) == 1:
        axes.set_xlabel(columns[0])


def draw_scatter(numbers: Numbers, columns: Sequence[str], axes: Axes) -> None:
    """The second column against the first, a point for each row; whiskers: standard deviations.

    A group of rows has one colour, a label one marker.
    """
    across, up = columns
    groups = list(dict.fromkeys(row.group for row in numbers.rows))
    labels = list(dict.fromkeys(row.label for row in numbers.rows))
    for row in numbers.rows:
        x, y = numbers.values[row.name, across], numbers.values[row.name, up]
        axes.errorbar(
            x.mean(), y.mean(), xerr=x.std(), yerr=y.std(), lw=0.8, markersize=5,
            color=f"C{groups.index(row.group)}", label=row.name,
            marker=MARKERS[labels.index(row.label) % len(MARKERS)],
        )  # fmt: skip
    axes.set(xlabel=across, ylabel=up)
