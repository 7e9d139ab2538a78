"""Training curves: the three panels that always come together (Ma et al., figs. 3, 4, 6 to 10)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cory.report.figures.style import (
    COLOURS,
    MARKERS,
    dash,
    finish,
    legend,
    panels,
    require_styles,
    save,
)
from cory.run_dir import METRICS, read_lines

PANELS = {
    "objective/score": "task reward (score)",
    "objective/kl": "KL divergence to the reference (nats)",
    "objective/combined": "combined reward (score - $\\eta$ KL)",
}

# an agent is named by its number, the turn that it plays in a debate, or both
SCORED = re.compile(r"(?:objective|eval)/score/(agent_\d+(?:_turn_\d+)?|turn_\d+)")

Lines = list[dict[str, Any]]
Curve = list[tuple[int, float, float | None]]  # iteration, mean, standard deviation


def draw_curves(groups: dict[str, list[Path]], path: Path) -> None:
    """Write the curves of run directories as a PNG."""
    runs = {name: [read_lines(d / METRICS) for d in dirs] for name, dirs in groups.items()}
    save(curves_figure(runs), path)


def curves_figure(
    runs: Mapping[str, Sequence[Lines]], responses: Mapping[str, int] | None = None
) -> Figure:
    """Task reward, KL and combined reward of every method and agent.

    runs: method -> lines of metrics.jsonl of its seeds
    responses: method -> responses that one of its iterations takes, of all agents together; the
        x axis then counts these instead of iterations
    """
    require_styles(list(runs))
    figure, axes_list = panels(len(PANELS))
    for letter, axes, (metric, name) in zip("abc", axes_list, PANELS.items(), strict=True):
        for number, (method, seeds) in enumerate(runs.items()):
            each = None if responses is None else responses[method]
            _draw_method(axes, method, seeds, metric, number, each)
        unit = "iterations" if responses is None else "responses sampled, all agents together"
        axes.set_xlabel(f"{unit}\n({letter})")
        axes.set_ylabel(name)
        axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=True))
        finish(axes)
    legend(figure, axes_list[0])
    return figure


def agents_of(lines: Lines) -> list[str]:
    """The agents that a run's metrics name, in their order: agent_0, turn_2, agent_0_turn_2."""
    matches = (SCORED.fullmatch(key) for line in lines for key in line)
    found = {match[1] for match in matches if match}
    return sorted(found, key=lambda name: [int(digits) for digits in re.findall(r"\d+", name)])


def agent_label(method: str, agent: str, agents: Sequence[str]) -> str:
    """The method, with a name for one of several agents: LLM1, LLM2, ..., or the turn it plays."""
    if len(agents) == 1:
        return method
    number, turn = re.findall(r"agent_(\d+)", agent), re.findall(r"turn_(\d+)", agent)
    names = [f"LLM{int(digits) + 1}" for digits in number] + [f"turn {digits}" for digits in turn]
    return " ".join([method, *names])


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


def _draw_method(
    axes: Axes,
    method: str,
    seeds: Sequence[Lines],
    metric: str,
    number: int,
    responses: int | None,
) -> None:
    """One line per agent, in the method's colour, with a band where there are several seeds."""
    agents = agents_of([line for lines in seeds for line in lines])
    for place, agent in enumerate(agents):
        curve = mean_curve(seeds, f"{metric}/{agent}")
        x = [point[0] if responses is None else (point[0] + 1) * responses for point in curve]
        y = [point[1] for point in curve]
        axes.plot(
            x,
            y,
            color=COLOURS[number],
            linestyle=dash(place),
            linewidth=1.6,
            # few markers, at other places for each line: a second way to tell methods apart
            marker=MARKERS[number],
            markevery=(min(3 * number + place, max(len(x) - 1, 0)), max(len(x) // 6, 1)),
            markersize=4,
            label=agent_label(method, agent, agents),
        )
        band = [
            (at, mean - std, mean + std)
            for at, (_, mean, std) in zip(x, curve, strict=True)
            if std is not None
        ]
        if band:
            i, low, high = zip(*band, strict=True)
            axes.fill_between(i, low, high, color=COLOURS[number], alpha=0.15, linewidth=0)
