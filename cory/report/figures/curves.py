"""Training curves: the three panels that always come together (Ma et al., figs. 3, 4, 6 to 10)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from cory.report.figures.lines import Curve, LinePanel, marked
from cory.report.figures.style import figure_of, require_styles, save_figure
from cory.report.tables.numbers import agent_label, agents_in_metrics
from cory.runs.run_dir import METRICS, read_lines

PANELS = {
    "objective/score": "task reward (score)",
    "objective/kl": "KL divergence to the reference (nats)",
    "objective/combined": "combined reward (score - $\\eta$ KL)",
}

Logged = list[dict[str, Any]]  # the lines of metrics.jsonl


def draw_curves(groups: dict[str, list[Path]], path: Path) -> None:
    """Write the curves of run directories as a PNG."""
    runs = {name: [read_lines(d / METRICS) for d in dirs] for name, dirs in groups.items()}
    save_figure(curves_figure(runs), path)


def curves_figure(
    runs: Mapping[str, Sequence[Logged]], responses: Mapping[str, int] | None = None
) -> Figure:
    """Task reward, KL and combined reward of every method and agent.

    runs: method -> lines of metrics.jsonl of its seeds
    responses: method -> responses that one of its iterations takes, of all agents together; the
        x axis then counts these instead of iterations
    """
    require_styles(list(runs))
    unit = "iterations" if responses is None else "responses sampled, all agents together"
    panels = []
    for metric, name in PANELS.items():
        curves = [
            curve
            for number, (method, seeds) in enumerate(runs.items())
            for curve in _of_method(
                method, seeds, metric, number, responses[method] if responses else None
            )
        ]
        panels.append(LinePanel(curves, unit, name, steps=(1, 2, 2.5, 5, 10)))
    return figure_of(panels, letters=True)


def mean_curve(seeds: Sequence[Logged], metric: str) -> list[tuple[int, float, float | None]]:
    """Mean and standard deviation over seeds, at the iterations that every seed has.

    The deviation is the sample's (n - 1); None for a single seed.
    """
    columns = [
        {int(line["iteration"]): float(line[metric]) for line in lines if metric in line}
        for lines in seeds
    ]
    curve = []
    for iteration in sorted(set.intersection(*map(set, columns))) if columns else []:
        values = [column[iteration] for column in columns]
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
        curve.append((iteration, float(np.mean(values)), spread))
    return curve


def _of_method(
    method: str, seeds: Sequence[Logged], metric: str, number: int, responses: int | None
) -> list[Curve]:
    """One line per agent, in the method's colour, with a band where there are several seeds."""
    agents = agents_in_metrics(line for lines in seeds for line in lines)
    curves = []
    for place, agent in enumerate(agents):
        points = mean_curve(seeds, f"{metric}/{agent}")
        x = [at if responses is None else (at + 1) * responses for at, _, _ in points]
        y = [mean for _, mean, _ in points]
        spread = [std for _, _, std in points if std is not None]
        known = bool(spread)
        low = [mean - std for mean, std in zip(y, spread, strict=True)] if known else None
        high = [mean + std for mean, std in zip(y, spread, strict=True)] if known else None
        look = marked(min(3 * number + place, max(len(x) - 1, 0)), len(x), place)
        label = agent_label(method, agent, agents)
        curves.append(Curve(label, x, y, low, high, number, look, band=0.15))
    return curves
