"""A number at every stage of training, in a panel: win rates, turns, lengths (Cheng et al.)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from cory.report.figures.style import COLOURS, MARKERS, finish, middle_and_band, require_styles

# per seed: value, lower and upper end of its 95 % interval
Values = Sequence[tuple[float, float, float]]


def draw_stages(
    axes: Axes,
    lines: Mapping[str, Mapping[str, Values]],
    stages: Sequence[str],
    axis: str,
    even: float | None = None,
) -> None:
    """One line per measure over the stages, with one standard deviation over seeds.

    With a single seed, the thin lines are its 95 % interval.

    lines: measure -> stage -> values; a stage without any is left out
    stages: from the first to the last
    even: a share at which nobody is ahead, drawn as a dashed line; None: the numbers are no shares
    """
    require_styles(list(lines))
    for number, (name, at) in enumerate(lines.items()):
        places = [place for place, stage in enumerate(stages) if at.get(stage)]
        bands = [middle_and_band(at[stages[place]]) for place in places]
        below = [max(middle - low, 0.0) for middle, low, _ in bands]
        above = [max(high - middle, 0.0) for middle, _, high in bands]
        axes.errorbar(
            [place + 0.05 * (number - (len(lines) - 1) / 2) for place in places],
            [middle for middle, _, _ in bands],
            yerr=[below, above],
            color=COLOURS[number], marker=MARKERS[number], markersize=6, linewidth=1.6,
            elinewidth=1, capsize=2, label=name,
        )  # fmt: skip
    if even is not None:
        axes.axhline(even, color="#555555", linewidth=1, linestyle="dashed")
        axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    axes.set_xticks(range(len(stages)), list(stages))
    axes.set_ylabel(axis)
    axes.margins(x=0.1)
    finish(axes)
