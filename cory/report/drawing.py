"""The figure of a paper's table: its curves, its bars, or one column against another."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from cory.report.cells import Numbers
from cory.report.plots import add_legend, bars, curve, digest_in, panels, save, scatter, style


def figure_of(numbers: Numbers, path: Path) -> bool:
    """Draw a table's figure into a PNG; returns whether the file was written anew.

    It is not where the file shows the same numbers, as other versions of matplotlib draw them.
    """
    figure = numbers.table.figure
    if figure is None:
        raise ValueError(f"{numbers.table.title} has no figure")
    columns = [column for column in figure.columns if column in numbers.columns]
    lines = {
        (row.name, column): numbers.curve_of(row, column)[["seed", "iteration", "value"]]
        for row in numbers.rows
        for column in columns
    }
    shown = {key: own.to_numpy().round(9).tolist() for key, own in lines.items()}
    digest = hashlib.sha256(repr((figure, shown)).encode()).hexdigest()[:16]
    if path.exists() and digest_in(path) == digest:
        return False
    with style():
        drawing, axes = panels(len(columns) if figure.kind == "curves" else 1)
        if figure.kind == "curves":
            draw_curves(numbers, columns, axes)
        elif figure.kind == "bars":
            drawing.set_size_inches(max(5.4, 1.1 * len(numbers.rows)), 3.4)
            draw_bars(numbers, columns, axes[0])
        else:
            draw_scatter(numbers, columns, axes[0])
        add_legend(drawing, axes)
        save(drawing, path, digest)
    return True


def draw_curves(numbers: Numbers, columns: Sequence[str], axes: Sequence[Axes]) -> None:
    """A panel for each column, a line for each row."""
    figure = numbers.table.figure
    assert figure is not None
    for panel, column in zip(axes, columns, strict=True):
        for number, row in enumerate(numbers.rows):
            lines = numbers.curve_of(row, column)
            if not lines.empty:
                by_seed = (own.set_index("iteration").value for _, own in lines.groupby("seed"))
                curve(panel, list(by_seed), number).set_label(row.name)
        panel.set_title(figure.name or column, fontsize=9)
        panel.set_xlabel(figure.over)
        panel.xaxis.set_major_locator(MaxNLocator(5, integer=True))


def draw_bars(numbers: Numbers, columns: Sequence[str], axes: Axes) -> None:
    """A group for each row, a bar for each column."""
    values = {
        row.name.replace(", ", ",\n").replace(": ", ":\n"): {
            column: seeds
            for column in columns
            if not (seeds := numbers.seeds_of(row, column)).empty
        }
        for row in numbers.rows
    }
    bars(axes, values)
    if len(columns) == 1:
        axes.set_ylabel(columns[0])


def draw_scatter(numbers: Numbers, columns: Sequence[str], axes: Axes) -> None:
    """The second column against the first, a point for each row."""
    across, up = columns
    points = {
        (row.group, row.label): (numbers.seeds_of(row, across), numbers.seeds_of(row, up))
        for row in numbers.rows
    }
    scatter(axes, points)
    axes.set(xlabel=across, ylabel=up)
