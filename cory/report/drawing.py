"""The figure of a paper's table: its curves, its bars, or one column against another."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from cory.report.cells import Numbers
from cory.report.plots import add_legend, bars, curve, panels, save, scatter, style

Data = list[object]  # what is drawn, so that a file is written anew only when it shows other data


def figure_of(numbers: Numbers, path: Path) -> bool:
    """Draw a table's figure into a PNG; returns whether the file was written anew."""
    figure = numbers.table.figure
    if figure is None:
        raise ValueError(f"{numbers.table.title} has no figure")
    columns = [column for column in figure.columns if column in numbers.columns]
    draw = {"curves": draw_curves, "bars": draw_bars, "scatter": draw_scatter}[figure.kind]
    with style():
        drawing, axes = panels(len(columns) if figure.kind == "curves" else 1)
        if figure.kind == "bars":
            drawing.set_size_inches(max(5.4, 1.1 * len(numbers.rows)), 3.4)
        data = draw(numbers, columns, axes)
        for panel in axes if figure.kind == "curves" else []:
            panel.set_xlabel(figure.over)
            if figure.name is not None:
                panel.set_title(figure.name, fontsize=9)
        add_legend(drawing, axes[0])
        return save(drawing, path, [figure.kind, figure.over, *data])


def draw_curves(numbers: Numbers, columns: Sequence[str], axes: Sequence[Axes]) -> Data:
    """A panel for each column, a line for each row."""
    data: Data = []
    for panel, column in zip(axes, columns, strict=True):
        for number, row in enumerate(numbers.rows):
            lines = numbers.curve_of(row, column)[["seed", "iteration", "value"]]
            if not lines.empty:
                by_seed = (own.set_index("iteration").value for _, own in lines.groupby("seed"))
                curve(panel, list(by_seed), number).set_label(row.name)
            data.append((column, row.name, lines.to_numpy().round(9).tolist()))
        panel.set_title(column, fontsize=9)
        panel.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    return data


def draw_bars(numbers: Numbers, columns: Sequence[str], axes: Sequence[Axes]) -> Data:
    """A group for each row, a bar for each column."""
    values = {
        row.name: {column: numbers.seeds_of(row, column) for column in columns}
        for row in numbers.rows
    }
    present = {
        name.replace(", ", ",\n").replace(": ", ":\n"): {
            column: seeds for column, seeds in cells.items() if not seeds.empty
        }
        for name, cells in values.items()
    }
    bars(axes[0], present)
    if len(columns) == 1:
        axes[0].set_ylabel(columns[0])
    return [(name, c, s.round(9).to_list()) for name, cs in values.items() for c, s in cs.items()]


def draw_scatter(numbers: Numbers, columns: Sequence[str], axes: Sequence[Axes]) -> Data:
    """The second column against the first, a point for each row."""
    across, up = columns
    points = {
        (row.group, row.label): (numbers.seeds_of(row, across), numbers.seeds_of(row, up))
        for row in numbers.rows
    }
    scatter(axes[0], points)
    axes[0].set(xlabel=across, ylabel=up)
    return [(name, x.round(9).to_list(), y.round(9).to_list()) for name, (x, y) in points.items()]
