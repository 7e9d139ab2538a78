"""A score over one factor that was varied (Cheng et al., fig. 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter

from cory.report.figures.style import COLOURS, MARKERS, finish, legend, middle_and_band, panels

# value of the factor -> per seed: value, lower and upper end of its 95 % interval
Curve = Mapping[float, Sequence[tuple[float, float, float]]]


def factor_figure(curves: Mapping[str, Curve], factor: str, axis: str, log: bool) -> Figure:
    """One line per measure; the band is one standard deviation over seeds.

    With a single seed, the band is its 95 % interval.

    factor, axis: what the axes say
    log: whether the factor's axis is logarithmic
    """
    figure, (axes,) = panels(1, width=6.2)
    for number, (name, curve) in enumerate(curves.items()):
        xs = sorted(curve)
        middle, low, high = zip(*(middle_and_band(curve[x]) for x in xs), strict=True)
        axes.plot(
            xs, middle, color=COLOURS[number], marker=MARKERS[number], markersize=5,
            linewidth=1.6, label=name,
        )  # fmt: skip
        axes.fill_between(xs, low, high, color=COLOURS[number], alpha=0.13, linewidth=0)
    if log:
        axes.set_xscale("log")
    every = sorted({x for curve in curves.values() for x in curve})
    axes.xaxis.set_major_locator(FixedLocator(every))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(every, [f"{x / 1000:g}K" if x >= 1000 else f"{x:g}" for x in every])
    axes.set_xlabel(f"{factor}{' (log scale)' if log else ''}")
    axes.set_ylabel(axis)
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=1))
    finish(axes)
    if len(curves) > 1:
        legend(figure, axes)
    return figure
