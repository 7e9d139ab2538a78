"""Figures of tables (scripts/papers.py): curves with a band over seeds, grouped bars, scatter."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from papers import Numbers

from cory.report.plots import MARKERS, STYLE, add_legend, curve, panels, save


def draw_table(numbers: Numbers, path: Path) -> None:
    """Draw a table's figure into a PNG."""
    figure = numbers.table.figure
    columns = [column for column in figure.columns if column in numbers.columns]
    with mpl.rc_context(STYLE):
        drawing, axes = panels(len(columns) if figure.kind == "curves" else 1)
        if figure.kind == "curves":
            draw_curves(numbers, columns, axes)
        elif figure.kind == "bars":
            drawing.set_size_inches(max(5.4, 1.1 * len(numbers.rows)), 3.4)
            draw_bars(numbers, columns, axes[0])
        else:
            draw_scatter(numbers, columns, axes[0])
        add_legend(drawing, axes)
        save(drawing, path)


def draw_curves(numbers: Numbers, columns: Sequence[str], axes: Sequence[Axes]) -> None:
    """A panel for each column, a line for each row."""
    for panel, column in zip(axes, columns, strict=True):
        for number, row in enumerate(numbers.rows):
            lines = numbers.curve_of(row, column)
            if not lines.empty:
                by_seed = (own.set_index("iteration").value for _, own in lines.groupby("seed"))
                curve(panel, list(by_seed), number).set_label(row.name)
        panel.set_title(numbers.table.figure.name or column, fontsize=9)
        panel.set_xlabel(numbers.table.figure.over)
        panel.xaxis.set_major_locator(MaxNLocator(5, integer=True))


def draw_bars(numbers: Numbers, columns: Sequence[str], axes: Axes) -> None:
    """A group for each row, a bar for each column; whiskers: standard deviation over seeds."""
    width, means = 0.8 / len(columns), []
    for number, column in enumerate(columns):
        values = [numbers.values[row.name, column] for row in numbers.rows]
        known = [(place, seeds) for place, seeds in enumerate(values) if not seeds.empty]
        x = [place + (number - (len(columns) - 1) / 2) * width for place, _ in known]
        heights = [float(seeds.mean()) for _, seeds in known]
        spread = [seeds.std() for _, seeds in known]
        axes.bar(x, heights, width * 0.92, yerr=spread, color=f"C{number}", label=column,
                 error_kw={"lw": 0.8, "ecolor": "#333333"})  # fmt: skip
        means += heights
    names = [row.name.replace(", ", ",\n").replace(": ", ":\n") for row in numbers.rows]
    axes.set_xticks(range(len(names)), names)
    axes.grid(visible=False, axis="x")
    if min(means) > 0.5 * max(means):  # near one another: told apart above a floor
        axes.set_ylim(bottom=min(means) - 0.4 * (max(means) - min(means)))
    if len(columns) == 1:
        axes.set_ylabel(columns[0])


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
