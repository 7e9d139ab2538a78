"""What all figures share: colours, dashes, markers, panels, and how a file is written."""

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text

# Okabe and Ito's colours, told apart by colour-blind readers; their yellow is lost on white
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
PALETTE = (*COLOURS, "#882255", "#777777", "#8B7500")  # of pages of results, see palette.py
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h")  # beside the colour, one per method
LETTERS = 14  # of small lines in an inch
NAME = 30  # letters in a line of a name at the end of a curve
DASHES = ("solid", "dashed", "dotted")

# formulae of this package and of matplotlib's ticks; any other dollar is in a user's text
FORMULA = re.compile(r"\$\\(?:eta|alpha|mathdefault\{[^$]*\})\$")

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
    direct: bool = False,
    projection: str | None = None,
    level: bool = False,
) -> Figure:
    """A figure with panels side by side and one legend for all of them.

    width, height: of one panel, in inches
    letters: panels are called (a), (b), ... below their x axes
    direct: lines are named at their ends in the last panel, if it has them all, without a legend
    level: all panels have the y axis of the first
    """
    # a Figure of its own: pyplot and the backend that the user chose stay as they are
    layout = ConstrainedLayoutEngine(wspace=0.04)
    figure = Figure(figsize=(width * len(panels), height), layout=layout)
    kind = {"projection": projection}
    axes_list = figure.subplots(1, len(panels), sharey=level, squeeze=False, subplot_kw=kind)[0]
    for letter, axes, panel in zip("abcdef", axes_list, panels, strict=False):
        panel.draw(axes)
        if level:
            axes.label_outer()
        if letters:
            axes.set_xlabel(f"{axes.get_xlabel()}\n({letter})")
    if direct and not _elsewhere(axes_list):
        name_ends(axes_list[-1], 0.62 * height)
    elif legend:
        add_legend(figure, axes_list)
    return figure


def _elsewhere(panels: Sequence[Axes]) -> set[str]:
    """The labels of lines that the last panel does not have."""
    *others, last = (set(axes.get_legend_handles_labels()[1]) for axes in panels)
    return set().union(*others) - last


def name_ends(axes: Axes, height: float) -> None:
    """Write each line's name beside its end, in its colour, moved apart where ends lie close.

    height: of the axes in inches, about; it decides how far apart names have to be
    """
    handles, labels = axes.get_legend_handles_labels()
    low, high = axes.get_ylim()
    ends = []
    for handle, label in zip(handles, labels, strict=True):
        line: Any = handle.lines[0] if hasattr(handle, "lines") else handle
        x, y = (np.asarray(values, dtype=float) for values in line.get_data())
        known = np.flatnonzero(np.isfinite(y))
        if known.size:
            at, text = known[-1], "\n".join(wrap(label, NAME))
            ends.append(((y[at] - low) / (high - low), (x[at], y[at]), text, line.get_color()))
    ends.sort(key=lambda end: end[0])
    sizes = [12 / (72 * height) * (1 + end[2].count("\n")) for end in ends]
    heights = spread_out([end[0] for end in ends], sizes)
    for place, (_, end, text, colour) in zip(heights, ends, strict=True):
        axes.annotate(
            text, end, xytext=(1.03, place), textcoords="axes fraction", va="center",
            fontsize=8.5, color=colour, annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5, "alpha": 0.6,
                        "shrinkA": 0, "shrinkB": 2},
        )  # fmt: skip


def spread_out(heights: Sequence[float], sizes: Sequence[float]) -> list[float]:
    """Ascending middles of names moved apart until none overlap, as little as possible.

    heights, sizes: the middle that each name should have, and its height
    """
    blocks: list[tuple[float, list[float]]] = []  # middle, and sizes of names that touch
    for height, size in zip(heights, sizes, strict=True):
        middle, own = height, [size]
        while blocks and middle - blocks[-1][0] < (sum(own) + sum(blocks[-1][1])) / 2:
            before, others = blocks.pop()
            weight = len(others) / (len(own) + len(others))
            middle = weight * before + (1 - weight) * middle
            own = [*others, *own]
        blocks.append((middle, own))
    found = []
    for middle, own in blocks:
        low = middle - sum(own) / 2
        for size in own:
            found.append(low + size / 2)
            low += size
    return found


def legend_name(label: str) -> str:
    """A name as matplotlib shows it: it leaves out of legends what begins with `_`."""
    return f" {label}" if label.startswith("_") else label


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
    columns = max(1, min(len(named), 4, fitting))
    rows = -(-len(named) // columns)
    if rows > 2:  # room for them, so that the panels keep their height and the axes their words
        figure.set_figheight(figure.get_figheight() + 0.2 * (rows - 2))
    figure.legend(
        list(named.values()),
        list(named),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        handlelength=2.8,
    )


def note(figure: Figure, text: str) -> None:
    """A small line above all panels; several where the figure is narrow."""
    text = "\n".join(wrap(text, int(LETTERS * figure.get_size_inches()[0])))
    figure.suptitle(text, x=0.01, ha="left", fontsize=8, color="#555555")


def headline(figure: Figure, title: str, notes: Sequence[str]) -> None:
    """A title above all panels, and below it small grey lines: what, how many, how to read it."""
    wide, high = (float(inches) for inches in figure.get_size_inches())
    titles = wrap(title, max(30, int(11.5 * wide)))
    small = [line for text in notes for line in wrap(text, max(40, int(17 * wide)))]
    above, below = 10.5 * 1.25 * len(titles) / 72, 8 * 1.3 * len(small) / 72
    high += above + below
    figure.set_size_inches(wide, high)
    # the empty lines keep room for the notes, which are smaller than the title
    room = "\n" * math.ceil(len(small) * 0.82)
    figure.suptitle("\n".join(titles) + room, x=0.01, ha="left", fontsize=10.5, weight="bold")
    figure.text(
        0.01, 0.98 - above / high, "\n".join(small), fontsize=8, color="#555555", va="top",
        ha="left", linespacing=1.25, in_layout=False,
    )  # fmt: skip


def require_styles(methods: Sequence[Any]) -> None:
    """ValueError where there are more methods than colours."""
    if len(methods) > len(COLOURS):
        names = "; ".join(map(str, methods))
        raise ValueError(
            f"at most {len(COLOURS)} groups fit one figure, got {len(methods)}: {names}"
        )


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
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_parse_math("$" not in FORMULA.sub("", text.get_text()))
    figure.savefig(path, dpi=150, metadata={"Software": None})
