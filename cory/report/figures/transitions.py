"""How right and wrong answers change over a debate (Park et al., figs. 3 and 4, tables 3 and 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from cory.report.figures.style import COLOURS, finish, legend, panels

Flows = Mapping[str, Mapping[str, Sequence[float]]]  # method -> flow -> a share per seed
# method -> rate -> its change per seed
Changes = Mapping[str, Mapping[str, Sequence[float]]]

# flow -> colour: answers that end right are blue, wrong ones orange; those that change are dark
SHADES = {"rr": "#9CCAE6", "wr": "#0072B2", "rw": "#B34700", "ww": "#F3C7A5"}
ROW = 0.42  # inches of a bar
WRITTEN = 0.07  # shares from here on are written into their bars


def transitions_figure(
    steps: Mapping[str, Flows], names: Mapping[str, str], changes: Changes | None = None
) -> Figure:
    """Shares of flows, stacked, one panel per step; beside them what incentives changed.

    steps: title of a panel, `turn 1 to 2` -> method -> flow -> shares
    names: flow -> what the legend calls it
    """
    rows = max(len(flows) for flows in steps.values())
    if changes is not None:
        rows = max(rows, 2 * len(changes))  # two bars each
    count = len(steps) + (changes is not None)
    figure, axes_list = panels(count, width=max(5.0, 8.0 / count), height=1.9 + ROW * rows)
    for axes, (step, flows) in zip(axes_list, steps.items(), strict=False):
        _stack(axes, flows, names)
        axes.set_title(step, fontsize=10)
        if axes is not axes_list[0]:
            axes.tick_params(axis="y", labelleft=False)
    if changes is not None:
        _changes(axes_list[-1], changes)
    legend(figure, *axes_list)
    return figure


def _stack(axes: Axes, flows: Flows, names: Mapping[str, str]) -> None:
    """One bar per method, the first on top."""
    for place, shares in enumerate(flows.values()):
        left = 0.0
        for flow, name in names.items():
            if not shares.get(flow):
                continue
            share = float(np.mean(shares[flow]))
            axes.barh(place, share, left=left, height=0.72, color=SHADES[flow], label=name)
            if share >= WRITTEN:
                ink = "white" if flow in ("wr", "rw") else "black"
                axes.text(
                    left + share / 2, place, f"{100 * share:.0f}", ha="center", va="center",
                    color=ink, fontsize=8,
                )  # fmt: skip
            left += share
    axes.set_yticks(range(len(flows)), list(flows))
    axes.set_ylim(len(flows) - 0.5, -0.5)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    axes.set_xlabel("share of single answers")
    finish(axes)
    axes.grid(visible=False)  # the numbers stand in the bars


def _changes(axes: Axes, changes: Changes) -> None:
    """Two bars per method: the change of the rate that is paid for, and of the one charged for."""
    kinds = ("wrong → right, paid", "right → wrong, charged")
    for place, rates in enumerate(changes.values()):
        for number, (kind, values) in enumerate(zip(kinds, rates.values(), strict=True)):
            if not values:
                continue
            spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
            axes.barh(
                place + 0.4 * number - 0.2, float(np.mean(values)), height=0.36, xerr=spread,
                color=COLOURS[(2, 3)[number]], label=kind,
                error_kw={"elinewidth": 1, "ecolor": "#555555"},
            )  # fmt: skip
    axes.axvline(0, color="#555555", linewidth=0.8)
    axes.set_yticks(range(len(changes)), list(changes))
    axes.set_ylim(len(changes) - 0.5, -0.5)
    axes.xaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0, symbol=""))
    axes.set_xlabel("change against no incentives (points)")
    axes.set_title("rates that the incentive is about", fontsize=10)
    axes.set_axisbelow(True)
    finish(axes)
    axes.grid(axis="y", visible=False)
