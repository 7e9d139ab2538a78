"""Training curves: the three panels that always come together (Ma et al., figs. 3 and 6)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from cory.run_dir import METRICS, read_lines

PANELS = {
    "objective/score": "task reward (score)",
    "objective/kl": "KL divergence to the reference (nats)",
    "objective/combined": "combined reward (score - $\\eta$ KL)",
}
# Okabe and Ito's colours, told apart by colour-blind readers; their yellow is lost on white
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("solid", "dashed", "dotted")

Lines = list[dict[str, Any]]
Curve = list[tuple[int, float, float | None]]  # iteration, mean, standard deviation


def draw_curves(groups: dict[str, list[Path]], path: Path) -> None:
    """Write `curves_figure(groups)` as a PNG."""
    curves_figure(groups).savefig(path, dpi=150)


def curves_figure(groups: dict[str, list[Path]]) -> Figure:
    """Task reward, KL and combined reward of every method and agent over the iterations.

    groups: method -> run directories of its seeds
    """
    if len(groups) > len(COLOURS):
        raise ValueError(f"at most {len(COLOURS)} methods fit one figure, got {len(groups)}")
    runs = {name: [read_lines(d / METRICS) for d in dirs] for name, dirs in groups.items()}
    # a Figure of its own: pyplot and the backend that the user chose stay as they are
    figure = Figure(figsize=(12, 4.2), layout=ConstrainedLayoutEngine(wspace=0.04))
    panels = figure.subplots(1, len(PANELS))
    for letter, axes, (metric, name) in zip("abc", panels, PANELS.items(), strict=True):
        for (method, seeds), colour in zip(runs.items(), COLOURS, strict=False):
            _draw_method(axes, method, seeds, metric, colour)
        axes.set_xlabel(f"iterations\n({letter})")
        axes.set_ylabel(name)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=min(len(labels), 4) or 1,
        frameon=False,
        handlelength=2.8,
    )
    return figure


def agents_of(lines: Lines) -> list[str]:
    """The agents that a run's metrics name, in their order."""
    prefix = "objective/score/agent_"
    numbers = {int(key.removeprefix(prefix)) for line in lines for key in line if prefix in key}
    return [f"agent_{number}" for number in sorted(numbers)]


def agent_label(method: str, agent: str, agents: Sequence[str]) -> str:
    """The method, with the paper's name for one of several agents: LLM1, LLM2, ..."""
    return method if len(agents) == 1 else f"{method} LLM{agents.index(agent) + 1}"


def mean_curve(seeds: Sequence[Lines], metric: str) -> Curve:
    """Mean and standard deviation over seeds, at the iterations that every seed has.

    The deviation is the sample's (n - 1); None for a single seed.
    """
    columns = [
        {int(line["iteration"]): float(line[metric]) for line in lines if metric in line}
        for lines in seeds
    ]
    curve: Curve = []
    for iteration in sorted(set.intersection(*map(set, columns))) if columns else []:
        values = [column[iteration] for column in columns]
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
        curve.append((iteration, float(np.mean(values)), spread))
    return curve


def _draw_method(axes: Axes, method: str, seeds: Sequence[Lines], metric: str, colour: str) -> None:
    """One line per agent, in the method's colour, with a band where there are several seeds."""
    agents = agents_of([line for lines in seeds for line in lines])
    for number, agent in enumerate(agents):
        curve = mean_curve(seeds, f"{metric}/{agent}")
        x, y = [point[0] for point in curve], [point[1] for point in curve]
        axes.plot(
            x,
            y,
            color=colour,
            linestyle=_dashes(number),
            linewidth=1.6,
            marker="o" if len(curve) == 1 else None,
            markersize=3,
            label=agent_label(method, agent, agents),
        )
        band = [(i, mean - std, mean + std) for i, mean, std in curve if std is not None]
        if band:
            i, low, high = zip(*band, strict=True)
            axes.fill_between(i, low, high, color=colour, alpha=0.15, linewidth=0)


def _dashes(number: int) -> str | tuple[float, tuple[float, ...]]:
    """A line style per agent; from the fourth on a dash and ever more dots."""
    if number < len(DASHES):
        return DASHES[number]
    return (0, (5, 1.5) + (1, 1.5) * (number - len(DASHES) + 1))
