"""Intervals of means and of paired differences, and how many seeds would tell."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

LEVEL = 0.9  # of every interval
POWER = 0.8  # share of studies of `pairs_needed` pairs in which a real difference shows
ROUNDING = 1e-6  # relative spread that is float32's rounding alone

Interval = tuple[float, float]
Values = Sequence[float] | NDArray[Any]


def mean_interval(values: Values) -> Interval | None:
    """Student's LEVEL interval of the mean of a sample, as of seeds.

    None below two values, and where they are equal up to rounding: then nothing says how much
    others would differ.
    """
    sample = np.asarray(values, dtype=float)
    if len(sample) < 2 or sample.std(ddof=1) <= ROUNDING * np.abs(sample).max():
        return None
    low, high = stats.t.interval(LEVEL, len(sample) - 1, sample.mean(), stats.sem(sample))
    return float(low), float(high)


def paired_interval(
    before: Sequence[float], after: Sequence[float], tries: int | None = None
) -> Interval | None:
    """LEVEL interval of mean(after) - mean(before), paired by position; None below two pairs.

    `mean_interval` of the differences. For shares it is that of Agresti and Min
    (2005): as if two tries more had been seen, half a try of which rose by 1 and half a try of
    which fell by 1. It stays wide where few pairs differ, and is no point where none, or every one,
    does.

    before, after: one value each per pair, as the mean of the responses to one prompt
    tries: all values are shares, of so many right or wrong tries each; None: they are other numbers
    """
    changes = np.subtract(after, before, dtype=float)
    if tries is None:
        return mean_interval(changes)
    if len(changes) < 2:
        return None
    pairs = len(changes) + 2 / tries
    centre = changes.sum() / pairs
    variance = ((changes**2).sum() + 1 / tries) / pairs - centre**2
    half = stats.t.ppf((1 + LEVEL) / 2, len(changes) - 1) * math.sqrt(variance / pairs)
    return float(max(-1.0, centre - half)), float(min(1.0, centre + half))


def pairs_needed(differences: Values, most: int = 1000) -> int | None:
    """Pairs, of seeds or prompts, that would show such a mean difference in POWER of all studies.

    The smallest n with (t((1 + LEVEL) / 2, n - 1) + z(POWER)) s / sqrt(n) below the mean
    difference, s the standard deviation as it is now. None where that is more than `most`, or s is
    not known.
    """
    if mean_interval(differences) is None:
        return None
    spread, size = np.std(differences, ddof=1), abs(np.mean(differences))
    for count in range(2, most + 1):
        quantiles = stats.t.ppf((1 + LEVEL) / 2, count - 1) + stats.norm.ppf(POWER)
        if quantiles * spread / math.sqrt(count) < size:
            return count
    return None
