"""95 % intervals over the seeds of a group of runs, and of differences between two groups.

By the rule that judges the claims of pages, `width_of` (docs/studies.md, "What has no interval").
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cory.evaluation.prompt_scores import compared
from cory.functional.statistics import Z_80, Z, interval, mean, paired_interval, standard_error
from cory.functional.statistics import student_t as t_quantile
from cory.report.claims.width import Quantiles, width_of

# metrics that are shares, so that no interval leaves 0 to 1
SHARES = re.compile(
    r"eval/(greedy_)?(vote|right|single|solved|ties|invalid|empty_share|verifier_auc|"
    r"verifier_accuracy|win_rate(_\w+)?|wins_\w+|(pass_at|any_of)_\d+|flow_\w\w|"
    r"revision_\w+|influence_\w+)(_low|_high)?/.+|"
    r"(eval/consensus_diversity|debate/right|debate/pseudo_right|transfer/copy_rate|"
    r"verifier/accuracy|rollout/\w+_share|rollout/distinct_\d|game/\w+_wins)(/.+)?"
)
QUANTILES = Quantiles(t_quantile, Z)

Interval = tuple[float, float]
Scores = Mapping[str, Any]  # a line of prompt_scores.jsonl


@dataclass(frozen=True)
class Spread:
    """A mean over runs or over pairs of them, and how sure it is; None: not known."""

    count: int
    mean: float
    std: float | None  # of the sample, n - 1
    interval: Interval | None
    over_prompts: bool = False  # the interval is from prompts alone


def is_share(metric: str, scores: Sequence[Scores | None]) -> bool:
    """Whether a metric is a share: by its name, or as the runs' own evaluations have said."""
    told = [line for line in scores if line is not None and metric in line["values"]]
    return bool(SHARES.fullmatch(metric)) or (
        bool(told) and all(metric in line["shares"] for line in told)
    )


def spread_of(
    values: Sequence[float],
    errors: Sequence[float | None],
    bounds: Interval | None,
    scale: float = 0.0,
) -> Spread:
    """The mean of values, one per run or pair, with its interval.

    errors: standard errors over prompts, one per value; None where none is known
    bounds: where the mean of such values can lie at all; None: anywhere
    scale: of differences, the largest absolute number that they were formed of
    """
    count, middle = len(values), mean(values)
    width = width_of(values, errors, QUANTILES, scale)
    if width.half is None:
        return Spread(count, middle, width.std, None)
    low, high = middle - width.half, middle + width.half
    if bounds is not None:
        low, high = max(bounds[0], low), min(bounds[1], high)
    return Spread(count, middle, width.std, (low, high), width.over_prompts)


def error_of(metric: str, scores: Scores | None) -> float | None:
    """The standard error over prompts of a run's metric; None where it has none."""
    if scores is None or metric not in scores["values"]:
        return None
    values, tries = scores["values"][metric], scores["shares"].get(metric)
    if tries is not None and all(0 <= value <= 1 for value in values):
        low, high = interval(values, tries * len(values))
        return (high - low) / 2 / Z
    return standard_error(values)


def error_of_difference(metric: str, one: Scores | None, other: Scores | None) -> float | None:
    """The standard error over prompts of a difference between two runs; None where none is known.

    Paired by prompt where both were asked the same.
    """
    errors = error_of(metric, one), error_of(metric, other)
    if one is None or other is None or errors[0] is None or errors[1] is None:
        return None
    if not compared(one, other):
        return math.hypot(errors[0], errors[1])
    tries = one["shares"].get(metric) if metric in other["shares"] else None
    first, second = other["values"][metric], one["values"][metric]
    found = paired_interval(first, second, tries)
    return None if found is None else (found[1] - found[0]) / 2 / t_quantile(len(first) - 1)


def seeds_needed(spread: Spread, most: int = 1000) -> int | None:
    """Pairs that would show such a difference in four of five studies; None: more than `most`.

    The smallest n with (t(0.975, n - 1) + z(0.8)) s / sqrt(n) below the difference, s as it is now.
    """
    if not spread.std:
        return None
    for count in range(2, most + 1):
        if (t_quantile(count - 1) + Z_80) * spread.std / math.sqrt(count) < abs(spread.mean):
            return count
    return None
