"""Means, pass@k, AUC; intervals of means, shares and paired differences."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit  # of scipy.stats, which takes 0.3 s to import

LEVEL = 0.9  # of every interval
POWER = 0.8  # share of studies of `pairs_needed` pairs in which a real difference shows
ROUNDING = 1e-6  # relative spread that is float32's rounding alone

Interval = tuple[float, float]
Values = Sequence[float] | NDArray[Any]


def mean(values: Iterable[float]) -> float:
    """The mean of at least one value."""
    numbers = list(values)
    return sum(numbers) / len(numbers)


def pass_at_k(right: int, of: int, k: int) -> float:
    """Probability that k of the tries, drawn without replacement, include a right one.

    1 - C(n - c, k) / C(n, k) (Chen et al., 2021, eq. 1): an unbiased estimate, for every n, of the
    probability that k new tries include a right one.

    right, of: c right tries out of n
    """
    return 1 - math.comb(of - right, k) / math.comb(of, k)


def contributions(sums: Sequence[float], counts: Sequence[float]) -> list[float]:
    """What each prompt contributes to sum(sums) / sum(counts); the mean of them is that ratio.

    The ratio itself plus the prompt's residual over the mean count: their spread is that of the
    ratio (linearisation; Cochran, 1977, section 6.3). Where every count is the same, they are the
    prompts' own means.

    sums, counts: of each prompt, as the games won and the games that count
    """
    whole = sum(counts)
    ratio, each = sum(sums) / whole, whole / len(counts)
    return [ratio + (own - ratio * count) / each for own, count in zip(sums, counts, strict=True)]


def mean_interval(values: Values) -> Interval | None:
    """Student's LEVEL interval of the mean of a sample, as of seeds.

    None below two values, and where they are equal up to rounding: then nothing says how much
    others would differ.
    """
    sample = np.asarray(values, dtype=float)
    if len(sample) < 2 or sample.std(ddof=1) <= ROUNDING * np.abs(sample).max():
        return None
    ends = np.array([1 - LEVEL, 1 + LEVEL]) / 2
    standard_error = sample.std(ddof=1) / math.sqrt(len(sample))
    low, high = sample.mean() + stdtrit(len(sample) - 1, ends) * standard_error
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
    return mean_interval(changes) if tries is None else _of_shares(changes, tries, -1.0)


def share_interval(shares: Values, tries: int) -> Interval | None:
    """LEVEL interval of the mean of shares, of so many right or wrong tries each.

    As if two tries more had been seen, one of them right (Agresti and Coull, 1998).
    """
    return _of_shares(np.asarray(shares, dtype=float), tries, 0.0)


def _of_shares(values: NDArray[Any], tries: int, least: float) -> Interval | None:
    """The interval with two tries more, half way from `least` to 1; None below two values."""
    if len(values) < 2:
        return None
    count = len(values) + 2 / tries
    centre = (values.sum() + (1 + least) / tries) / count
    variance = ((values**2).sum() + 1 / tries) / count - centre**2
    half = stdtrit(len(values) - 1, (1 + LEVEL) / 2) * math.sqrt(variance / count)
    return float(max(least, centre - half)), float(min(1.0, centre + half))


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
        quantiles = stdtrit(count - 1, (1 + LEVEL) / 2) + ndtri(POWER)
        if quantiles * spread / math.sqrt(count) < size:
            return count
    return None


def auc(right: Sequence[float], wrong: Sequence[float]) -> float:
    """Probability that a right answer scores above a wrong one, a tie counting one half.

    right, wrong: scores of the right and of the wrong answers, neither empty
    """
    ordered = sorted(wrong)
    # twice the number of pairs won, so that ties stay whole numbers
    twice = sum(bisect_left(ordered, score) + bisect_right(ordered, score) for score in right)
    return twice / (2 * len(right) * len(wrong))
