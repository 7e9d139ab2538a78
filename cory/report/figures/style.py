"""What all figures share: colours, dashes, markers, panels, and how a file is written."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

# Okabe and Ito's colours, told apart by colour-blind readers; their yellow is lost on white
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")  # beside the colour, one per method
DASHES = ("solid", "dashed", "dotted")

Dash = str | tuple[float, tuple[float, ...]]


class Panel(Protocol):
    """The content of one pair of axes: lines, bars, or a heat map."""

    def draw(self, axes: Axes) -> None:
        """Draw it."""


def figure_of(
    panels: Sequence[Panel],
    width: float = 4.0,
    height: float = 4.2,
    letters: bool = False,
    legend: bool = True,
    projection: str | None = None,
) -> Figure:
    """A figure with panels side by side and one legend for all of them.

    width, height: of one panel, in inches
    letters: panels are called (a), (b), ... below their x axes
    """
    # a Figure of its own: pyplot and the backend that the user chose stay as they are
    layout = ConstrainedLayoutEngine(wspace=0.04)
    figure = Figure(figsize=(width * len(panels), height), layout=layout)
    kind = {"projection": projection}
    axes_list = figure.subplots(1, len(panels), squeeze=False, subplot_kw=kind)[0]
    for letter, axes, panel in zip("abcdef", axes_list, panels, strict=False):
        panel.draw(axes)
        if letters:
            axes.set_xlabel(f"{axes.get_xlabel()}\n({letter})")
    if legend:
        add_legend(figure, axes_list)
    return figure


def finish(axes: Axes) -> None:
    """A light grid, and no frame where there are no numbers."""
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def add_legend(figure: Figure, panels: Iterable[Axes]) -> None:
    """One legend below all panels; a label that stands in several of them once."""
    named: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    longest = max(map(len, named), default=0)
    # inches of the longest label and its line, at the font's usual width
    fitting = int(figure.get_size_inches()[0] / (0.075 * longest + 0.7))
    figure.legend(
        list(named.values()),
        list(named),
        loc="outside lower center",
        ncols=max(1, min(len(named), 4, fitting)),
        frameon=False,
        handlelength=2.8,
    )


def note(figure: Figure, text: str) -> None:
    """A small line above all panels."""
    figure.suptitle(text, x=0.01, ha="left", fontsize=8, color="#555555")


def require_styles(methods: Sequence[Any]) -> None:
    """ValueError where there are more methods than colours."""
    if len(methods) > len(COLOURS):
        raise ValueError(f"at most {len(COLOURS)} methods fit one figure, got {len(methods)}")


def middle_and_band(
    seeds: Sequence[tuple[float, float, float]],
) -> tuple[float, float, float]:
    """Mean and one standard deviation to either side; of a single seed, its own interval.

    seeds: value, lower and upper end of its interval, each
    """
    if len(seeds) == 1:
        return seeds[0]
    values = [value for value, _, _ in seeds]
    mean, spread = float(np.mean(values)), float(np.std(values, ddof=1))
    return mean, mean - spread, mean + spread


def dash(number: int) -> Dash:
    """A line style per agent; from the fourth on a dash and ever more dots."""
    if number < len(DASHES):
        return DASHES[number]
    return (0, (5, 1.5) + (1, 1.5) * (number - len(DASHES) + 1))


def save_figure(figure: Figure, path: Path) -> None:
    """Write a PNG whose bytes depend on the figure and on the version of matplotlib alone."""
    figure.savefig(path, dpi=150, metadata={"Software": None})
