"""Curves of any metrics of groups of runs: a panel per metric, a colour per group."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from cory.functional.statistics import mean
from cory.report.agent_names import agent_name, split_name
from cory.report.axis_names import AXES
from cory.report.figures.lines import Curve, LinePanel, marked
from cory.report.figures.smoothing import smoothed
from cory.report.figures.style import figure_of, note, require_styles, save_figure
from cory.report.tables.numbers import named
from cory.runs.run_dir import METRICS, read_lines

MOST_PANELS = 4
RAW = {"marker": "", "linewidth": 0.7, "alpha": 0.35}

Logged = Sequence[Mapping[str, Any]]  # the lines of metrics.jsonl
Series = Mapping[float, float]  # iteration, from 0 -> value


def draw_groups(
    groups: Mapping[str, Sequence[Path]],
    metrics: Sequence[str],
    path: Path,
    smooth: int = 1,
    title: str = "",
) -> None:
    """Write the curves of groups of runs as a PNG; see `groups_figure`."""
    runs = {name: [read_lines(d / METRICS) for d in dirs] for name, dirs in groups.items()}
    save_figure(groups_figure(runs, metrics, smooth, title), path)


def groups_figure(
    runs: Mapping[str, Sequence[Logged]],
    metrics: Sequence[str],
    smooth: int = 1,
    title: str = "",
) -> Figure:
    """Means over the runs of a group, with a band of one standard deviation.

    runs: group -> lines of metrics.jsonl of each of its runs
    metrics: names with or without their last part, as `objective/kl` or `objective/kl/agent_0`
    smooth: iterations that a running mean of each run averages over; above 1 the mean of the values
        as they were logged stands behind it, as a thin line

    Raises ValueError where this makes no sense, in a line.
    """
    require_styles(list(runs))
    panels = wanted(runs, metrics)
    for base, whose in panels.items():
        require_curve(runs, [f"{base}/{who}" if who else base for who in whose], smooth)
    everybody = sorted({who for whose in panels.values() for who in whose})
    drawn = []
    for base, whose in panels.items():
        curves = [
            curve
            for number, (group, own) in enumerate(runs.items())
            for who in whose
            for curve in _curves(
                group if len(everybody) == 1 else f"{group}, {agent_name(who)}",
                [_series(lines, f"{base}/{who}" if who else base) for lines in own],
                number,
                everybody.index(who),
                smooth,
            )
        ]
        drawn.append(
            LinePanel(curves, "iterations", AXES.get(base, base), steps=(1, 2, 2.5, 5, 10))
        )
    figure = figure_of(drawn, width=4.0)
    if title:
        note(figure, title)
    return figure


def wanted(runs: Mapping[str, Sequence[Logged]], metrics: Sequence[str]) -> dict[str, list[str]]:
    """Panel -> whom it has curves of, the last parts of metrics; an empty part for none."""
    lines = [line for own in runs.values() for one in own for line in one]
    every = {name for line in lines for name in line}
    panels: dict[str, list[str]] = {}
    for metric in metrics:
        base, who = split_name(metric)
        found = named(lines, rf"{metric}/((?:agent|turn|generation|critic)_\d+\w*)")
        found = found or named(lines, rf"{metric}/([^/]+)")
        if metric in every:
            panels.setdefault(base, []).append(who)
        elif found:
            panels.setdefault(metric, []).extend(found)
        else:
            raise ValueError(f"{metric} is no metric of these runs")
    if len(panels) > MOST_PANELS:
        raise ValueError(f"at most {MOST_PANELS} panels fit one figure, not {', '.join(panels)}")
    return {base: list(dict.fromkeys(whose)) for base, whose in panels.items()}


def require_curve(
    runs: Mapping[str, Sequence[Logged]], metrics: Sequence[str], smooth: int
) -> None:
    """ValueError where no run has two values to draw a line through, or too few to smooth."""
    counts = [
        len(_series(lines, metric)) for own in runs.values() for lines in own for metric in metrics
    ]
    if max(counts) < 2:
        raise ValueError(
            f"{metrics[0]} has one value in each run, which is no curve; see scripts/compare.py"
        )
    if smooth > max(counts):
        raise ValueError(f"--smooth {smooth} is more than the {max(counts)} values of {metrics[0]}")


def cut_short(runs: Mapping[str, Sequence[Logged]], metrics: Sequence[str]) -> list[str]:
    """Which lines end before the longest of their runs, and which are of fewer runs than others."""
    said = []
    for group, own in runs.items():
        for metric, whose in wanted(runs, metrics).items():
            for name in (f"{metric}/{who}" if who else metric for who in whose):
                seeds = [series for lines in own if (series := _series(lines, name))]
                ends = sorted(max(series) + 1 for series in seeds)
                if ends and ends[0] < ends[-1]:
                    said.append(f"{name} of {group} ends at {ends[0]}, with its shortest run")
                if seeds and len(seeds) < len(own):
                    said.append(f"{name} of {group} is of {len(seeds)} of {len(own)} runs")
    return said


def _series(lines: Logged, metric: str) -> Series:
    return {int(line["iteration"]): float(line[metric]) for line in lines if metric in line}


def _curves(
    label: str, seeds: Sequence[Series], number: int, place: int, smooth: int
) -> list[Curve]:
    """The line of one group and agent, in the group's colour and the agent's dashes."""
    having = [series for series in seeds if series]
    if not having:
        return []
    curves = []
    if smooth > 1:
        x, y, _ = _over(having)
        curves.append(Curve("", x, y, colour=number, look=RAW))
    x, y, spread = _over([smoothed(series, smooth) for series in having])
    if not x:  # too few values for one window; the thin line stands alone
        return curves
    low = high = None
    if spread:
        low = [middle - std for middle, std in zip(y, spread, strict=True)]
        high = [middle + std for middle, std in zip(y, spread, strict=True)]
    look = marked(min(3 * number + place, max(len(x) - 1, 0)), len(x), place)
    return [*curves, Curve(label, x, y, low, high, number, look, band=0.15)]


def _over(seeds: Sequence[Series]) -> tuple[list[float], list[float], list[float]]:
    """Iterations done, and mean and deviation over seeds (n - 1) where all of them have values.

    No deviation of a single seed.
    """
    x = sorted(set.intersection(*map(set, seeds)))
    columns = [[series[at] for series in seeds] for at in x]
    spread = [float(np.std(column, ddof=1)) for column in columns] if len(seeds) > 1 else []
    return [at + 1 for at in x], [mean(column) for column in columns], spread
