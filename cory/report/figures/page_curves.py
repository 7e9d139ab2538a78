"""Training curves of a page (Ma et al., figs. 3, 4, 6 to 10), smoothed, the raw ones behind."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from cory.report.figures.curves import PANELS
from cory.report.figures.lines import Cross, Curve, LinePanel
from cory.report.figures.palette import Look, looks
from cory.report.figures.smoothing import smoothed
from cory.report.figures.style import Panel, figure_of
from cory.report.tables.numbers import agents_in_metrics

ENDS = 0.012  # of the x axis, between the bars at the ends of two curves

Logged = list[dict[str, Any]]  # the lines of metrics.jsonl


def page_curves(
    runs: Mapping[str, Sequence[Logged]],
    window: int,
    responses: Mapping[str, int] | None = None,
) -> Figure:
    """Task reward, KL and combined reward of every method and agent.

    runs: method -> lines of metrics.jsonl of its seeds
    window: iterations of the centred running mean, whose last value is the number in the page's
        table; a run of fewer iterations has none
    responses: method -> responses that one of its iterations takes, of all agents together; the
        x axis then counts these instead of iterations
    """
    who = {
        named(method, agent, len(agents)): (method, agent)
        for method, seeds in runs.items()
        for agents in [agents_in_metrics(line for lines in seeds for line in lines)]
        for agent in agents
    }
    styles = looks(list(who))
    unit = "iterations" if responses is None else "responses sampled, all agents together"
    panels = []
    for metric, name in PANELS.items():
        parts: list[Panel] = []
        for number, (label, (method, agent)) in enumerate(who.items()):
            own = seed_matrix(runs[method], f"{metric}/{agent}")
            scale = responses[method] if responses else 1
            parts += _curves(label, own, window, scale, styles[label], number)
        panels.append(LinePanel(parts, unit, name, steps=(1, 2, 2.5, 5, 10)))
    return figure_of(panels, letters=True, direct=True)


def named(method: str, agent: str, agents: int) -> str:
    """The method, with the agent's number where it has several."""
    colon = ":" if method.endswith("agents") else ""
    return method if agents == 1 else f"{method}{colon} {agent.replace('_', ' ')}"


def seed_matrix(seeds: Sequence[Logged], metric: str) -> Any:
    """[seed, iteration] of the iterations that every seed has, from the first on."""
    columns = [[float(line[metric]) for line in lines if metric in line] for lines in seeds]
    length = min(map(len, columns), default=0)
    return np.array([column[:length] for column in columns])


def _curves(label: str, own: Any, window: int, scale: int, look: Look, number: int) -> list[Panel]:
    """The raw mean, its running mean, and behind the end one standard deviation over seeds."""
    if not own.size:
        return []
    x = ((np.arange(own.shape[1]) + 1) * scale).tolist()  # iterations done
    means = [smoothed(dict(zip(x, seed, strict=True)), window) for seed in own.tolist()]
    smooth = np.array([list(seed.values()) for seed in means])
    thin = {"marker": "", "linewidth": 0.6, "alpha": 0.28}
    every = (2 + 3 * number) % max(own.shape[1] // 5, 1), max(own.shape[1] // 5, 1)
    thick = {**look.line, "markersize": 4.5, "linewidth": 1.8, "markevery": every}
    parts: list[Panel] = [
        Curve("", x, own.mean(axis=0).tolist(), colour=look.place, look=thin),
        Curve(label, list(means[0]), smooth.mean(axis=0).tolist(), colour=look.place, look=thick),
    ]
    if len(own) > 1 and smooth.size:
        end = x[-1] + (number + 1) * ENDS * x[-1], float(smooth[:, -1].mean())
        parts.append(Cross(end, (0.0, float(smooth[:, -1].std(ddof=1))), look.place))
    return parts
