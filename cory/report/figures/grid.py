"""Heat maps of a grid search: learning rate against KL coefficient (Ma et al., App. A.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from cory.report.figures.style import panels

Cells = Mapping[tuple[str, str], float]  # (row, column) -> mean over seeds


def grid_figure(rows: Sequence[str], columns: Sequence[str], kinds: Mapping[str, Cells]) -> Figure:
    """One panel per kind of number, its values written in the cells; what is missing is hatched.

    rows, columns: learning rates and KL coefficients, as written
    """
    figure, axes_list = panels(len(kinds), width=4.6, height=3.6)
    colours = colormaps["cividis"]  # even in lightness, also to a colour-blind reader
    for letter, axes, (kind, cells) in zip("abcdef", axes_list, kinds.items(), strict=False):
        values = np.array(
            [[cells.get((row, column), math.nan) for column in columns] for row in rows]
        )
        known = values[np.isfinite(values)]
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        scale = Normalize(low, high if high > low else low + 1)
        image = axes.imshow(values, cmap=colours, norm=scale, aspect="auto")
        for i in range(len(rows)):
            for j in range(len(columns)):
                value = float(values[i, j])
                if math.isfinite(value):
                    ink = "black" if scale(value) > 0.5 else "white"
                    axes.text(j, i, f"{value:.2f}", ha="center", va="center", color=ink, fontsize=9)
                else:
                    missing = (rows[i], columns[j]) not in cells
                    axes.add_patch(
                        Rectangle(
                            (j - 0.5, i - 0.5), 1, 1, hatch="//", fill=False, edgecolor="#999999",
                            linewidth=0,
                        )
                    )  # fmt: skip
                    word = "not run" if missing else "diverged"
                    axes.text(j, i, word, ha="center", va="center", fontsize=7)
        axes.set_xticks(range(len(columns)), columns)
        axes.set_yticks(range(len(rows)), rows)
        axes.set_xlabel(f"KL coefficient $\\eta$\n({letter})")
        axes.set_ylabel("learning rate $\\alpha$")
        figure.colorbar(image, ax=axes, label=kind)
    return figure
