"""Who wins against whom: a heat map with its numbers (Cheng et al., fig. 4, right)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle

# (row, column) -> a share per seed
Cells = Mapping[tuple[str, str], Sequence[float]]


def draw_matrix(
    axes: Axes, cells: Cells, names: Sequence[str], rows: str, columns: str, kind: str
) -> None:
    """Means over seeds in per cent, below them one standard deviation; hatched where none.

    rows, columns: what the axes say
    kind: what the shares are
    """
    means = np.array(
        [
            [float(np.mean(cells[row, column])) if cells.get((row, column)) else np.nan
             for column in names]
            for row in names
        ]
    )  # fmt: skip
    known = means[np.isfinite(means)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    scale = Normalize(low, high if high > low else low + 0.01)
    colours = colormaps["cividis"]  # even in lightness, also to a colour-blind reader
    image = axes.imshow(means, cmap=colours, norm=scale, aspect="auto")
    for i, row in enumerate(names):
        for j, column in enumerate(names):
            values = cells.get((row, column), ())
            if not values:
                frame = Rectangle((j - 0.5, i - 0.5), 1, 1, hatch="//", fill=False, linewidth=0)
                frame.set_edgecolor("#999999")
                axes.add_patch(frame)
                continue
            spread = f"\n± {100 * np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
            ink = "black" if scale(means[i, j]) > 0.5 else "white"
            text = f"{100 * means[i, j]:.1f}{spread}"
            axes.text(j, i, text, ha="center", va="center", color=ink, fontsize=8.5)
    axes.set_xticks(range(len(names)), list(names))
    axes.set_yticks(range(len(names)), list(names))
    axes.set_xlabel(columns)
    axes.set_ylabel(rows)
    bar = axes.figure.colorbar(image, ax=axes, label=kind)
    bar.ax.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
