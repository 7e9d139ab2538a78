"""Measures of a run: one number from the lines of its metrics.jsonl."""

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from cory.functional.statistics import Z

Lines = list[dict[str, Any]]
# experiment -> seed -> lines of metrics.jsonl, for the runs that count
Records = Mapping[str, Mapping[int, Lines]]
MEASURES = (
    "final",
    "middle",
    "first",
    "tenth",
    "last",
    "highest",
    "early_highest",
    "peak",
    "change",
    "first_half",
    "second_half",
    "climb",
    "early_climb",
    "fall",
    "unsteadiness",
    "correlation",
    "reached",
)
ITERATION = re.compile(r"iteration_(\d+)")  # the value after so many, from 1


class Absent(ValueError):
    """A run has no value of a metric: nothing that it counts occurred."""


def require_measure(at: str) -> None:
    """Raise ValueError for an unknown measure."""
    if at not in MEASURES and not ITERATION.fullmatch(at):
        raise ValueError(f"at={at} is unknown; use one of {', '.join(MEASURES)}, iteration_<n>")


def measure(
    lines: Lines,
    metric: str,
    at: str,
    window: int,
    other: str | None = None,
    level: float = 0.0,
) -> float:
    """One number of a run: a measure of a metric over its iterations.

    at: last: the last value; iteration_<n>: the one after so many iterations
        correlation: Pearson's, with the metric `other`, over the lines that have both
        all others look at means over `window` iterations in a row
        reached: where the metric `other` first reaches `level`; Absent where it never does
        first, middle, final: at the beginning, in the middle, at the end
        tenth: right after the first tenth of the run
        highest: the highest of them; peak: where that is, from 0 (the start) to 1 (the end)
        early_highest: the highest of them up to the middle
        change: final minus first; first_half: middle minus first; second_half: final minus middle
        climb: highest minus first; early_climb: early_highest minus first
        fall: highest minus final
        unsteadiness: the variance over the single iterations of the last half, less what chance
            gives to means of so few responses (the mean of the squared `objective/score_se`); of
            what is left the root, or 0
    """
    require_measure(at)
    if match := ITERATION.fullmatch(at):
        lines = [line for line in lines if int(line["iteration"]) + 1 == int(match[1])]
        at = "last"
    values = [float(line[metric]) for line in lines if metric in line]
    if not values:
        raise Absent(f"no {metric}")
    if at == "correlation":
        return _correlation(lines, metric, str(other))
    if at == "last":
        return values[-1]
    if len(values) < window:
        raise ValueError(f"{metric} has {len(values)} values, fewer than the window of {window}")
    if at == "unsteadiness":
        return _unsteadiness(lines, metric)
    means = _running_means(values, window)
    if at == "reached":
        return _reached(lines, metric, str(other), window, level)
    top = int(np.argmax(means))
    half = (len(values) - window) // 2
    points = {
        "first": means[0],
        "tenth": means[min(len(values) // 10, len(means) - 1)],
        "middle": means[half],
        "final": means[-1],
        "highest": means[top],
        "early_highest": max(means[: half + 1]),
        "peak": top / max(len(means) - 1, 1),
    }
    differences = {
        "change": ("final", "first"),
        "first_half": ("middle", "first"),
        "second_half": ("final", "middle"),
        "climb": ("highest", "first"),
        "early_climb": ("early_highest", "first"),
        "fall": ("highest", "final"),
    }
    if at in points:
        return points[at]
    minuend, subtrahend = differences[at]
    return points[minuend] - points[subtrahend]


def _running_means(values: list[float], window: int) -> list[float]:
    return [float(np.mean(values[i : i + window])) for i in range(len(values) - window + 1)]


def _reached(lines: Lines, metric: str, other: str, window: int, level: float) -> float:
    """The metric's mean over the first `window` iterations over which `other` has such a mean."""
    both = [(float(line[metric]), float(line[other])) for line in lines if other in line]
    own, others = ([pair[place] for pair in both] for place in (0, 1))
    for mean, height in zip(
        _running_means(own, window), _running_means(others, window), strict=True
    ):
        if height >= level:
            return mean
    raise Absent(f"no {other} of {level}")


def _unsteadiness(lines: Lines, metric: str) -> float:
    """The standard deviation of an agent's metric over the last half, without sampling noise.

    The variance of a mean over iterations is that of what the policy would give on average, plus
    that of the draw. The latter is the mean of the squared standard errors; of the combined reward,
    too, where the KL's own share is left in. 0 where the draw explains everything.
    """
    error = f"objective/score_se/{metric.rpartition('/')[2]}"
    last = [line for line in lines if metric in line]
    last = last[len(last) // 2 :]
    if not all(error in line for line in last):
        raise Absent(f"no {error.replace('_se', '_std')}")
    drawn = float(np.mean([float(line[error]) ** 2 for line in last]))
    return math.sqrt(max(0.0, float(np.var([line[metric] for line in last], ddof=1)) - drawn))


def _correlation(lines: Lines, metric: str, other: str) -> float:
    """Pearson's correlation of two metrics over iterations; Absent where one does not vary."""
    pairs = np.array(
        [(line[metric], line[other]) for line in lines if metric in line and other in line]
    )
    if len(pairs) < 3 or not np.all(np.ptp(pairs, axis=0) > 0):
        raise Absent(f"no correlation of {metric} with {other}: too few values, or all the same")
    return float(np.corrcoef(pairs[:, 0], pairs[:, 1])[0, 1])


def stored_error(lines: Lines, metric: str, at: str) -> float | None:
    """The standard error that a run has logged beside one evaluation; None where it has none.

    It is the sampling error over prompts (`<metric>_se`, of benchmarks `_stderr`), or what an
    interval of 95 % (`_low`, `_high`) says of it. Measures over several iterations have none.
    """
    if match := ITERATION.fullmatch(at):
        lines = [line for line in lines if int(line["iteration"]) + 1 == int(match[1])]
    elif at != "last":
        return None
    own = [line for line in lines if metric in line]
    base, _, who = metric.rpartition("/")
    for line in own[-1:]:
        for suffix in ("_se", "_stderr"):
            if f"{base}{suffix}/{who}" in line:
                return float(line[f"{base}{suffix}/{who}"])
        if f"{base}_low/{who}" in line:
            width = float(line[f"{base}_high/{who}"]) - float(line[f"{base}_low/{who}"])
            return width / (2 * Z)
    return None
