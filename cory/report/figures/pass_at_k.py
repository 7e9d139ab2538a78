"""The share of problems that are passed with k tries, over k (Ma et al., fig. 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter

from cory.report.figures.style import (
    COLOURS,
    MARKERS,
    dash,
    finish,
    legend,
    middle_and_band,
    panels,
    require_styles,
)

# k -> per seed: value, lower and upper end of its 95 % interval
Rates = Mapping[int, Sequence[tuple[float, float, float]]]


def pass_at_k_figure(kinds: Mapping[str, Mapping[str, Rates]]) -> Figure:
    """One panel per kind of estimate, one line per method.

    The band is one standard deviation over seeds; with a single seed, its 95 % interval.

    kinds: name of the y axis -> method -> rates
    """
    figure, axes_list = panels(len(kinds), width=5.5)
    for letter, axes, (kind, methods) in zip("abcdef", axes_list, kinds.items(), strict=False):
        require_styles(list(methods))
        ks = sorted({k for rates in methods.values() for k in rates})
        for number, (name, rates) in enumerate(methods.items()):
            own = sorted(rates)
            middle, low, high = zip(*(middle_and_band(rates[k]) for k in own), strict=True)
            axes.plot(
                own, middle, color=COLOURS[number], linestyle=dash(number % 3),
                marker=MARKERS[number], markersize=5, linewidth=1.6, label=name,
            )  # fmt: skip
            axes.fill_between(own, low, high, color=COLOURS[number], alpha=0.15, linewidth=0)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(ks))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticks(ks, [str(k) for k in ks])
        axes.set_xlabel(f"k, responses per problem (log scale)\n({letter})")
        axes.set_ylabel(kind)
        axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
        finish(axes)
    legend(figure, axes_list[0])
    return figure
