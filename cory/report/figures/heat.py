"""The heat map: numbers written into cells, lightness by their size, hatched where none."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle

LIGHTNESS = colormaps["cividis"]  # even in lightness, also to a colour-blind reader


@dataclass(frozen=True)
class HeatPanel:
    """One panel; a cell is called by its row and its column."""

    rows: Sequence[str]
    columns: Sequence[str]
    means: Mapping[tuple[str, str], float]
    text: Callable[[str, str], str]  # of a cell that has a number
    missing: Callable[[str, str], str]  # of one that has none
    x: str
    y: str
    bar: str  # what the numbers are
    percent: bool = False
    fontsize: float = 9
    less_is_better: bool = False  # light is always the good end

    def draw(self, axes: Axes) -> None:
        """Draw every cell and the bar of colours."""
        values = np.array(
            [[self.means.get((row, column), math.nan) for column in self.columns]
             for row in self.rows]
        )  # fmt: skip
        known = values[np.isfinite(values)]
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        least = 0.01 if self.percent else 1
        scale = Normalize(low, high if high > low else low + least)
        colours = LIGHTNESS.reversed() if self.less_is_better else LIGHTNESS
        image = axes.imshow(values, cmap=colours, norm=scale, aspect="auto")
        for i, row in enumerate(self.rows):
            for j, column in enumerate(self.columns):
                light = (scale(values[i, j]) > 0.5) != self.less_is_better
                ink, size = "black" if light else "white", self.fontsize
                text = self.text
                if not math.isfinite(values[i, j]):
                    frame = Rectangle((j - 0.5, i - 0.5), 1, 1, hatch="//", fill=False, linewidth=0)
                    frame.set_edgecolor("#999999")
                    axes.add_patch(frame)
                    ink, size, text = "black", 7, self.missing
                if said := text(row, column):
                    axes.text(j, i, said, ha="center", va="center", color=ink, fontsize=size)
        axes.set_xticks(range(len(self.columns)), list(self.columns))
        axes.set_yticks(range(len(self.rows)), list(self.rows))
        axes.set_xlabel(self.x)
        axes.set_ylabel(self.y)
        bar = axes.figure.colorbar(image, ax=axes, label=self.bar)
        if self.percent:
            bar.ax.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
