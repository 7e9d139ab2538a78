"""Intervals of differences over seeds, and the smallest difference that they could show."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.stats import nct, norm, t

from cory.report.claims.width import Quantiles, width_of

TAIL = 0.05  # beyond each end of a 90 % interval
POWER = 0.8  # probability with which the smallest detectable difference is found


@dataclass(frozen=True)
class Interval:
    """The mean of differences and its two-sided confidence interval."""

    mean: float
    low: float
    high: float
    n: int  # seeds
    std: float | None  # the sample's (n - 1), over seeds; None for one seed


def interval(
    differences: Sequence[float],
    errors: Sequence[float | None] = (),
    tail: float = TAIL,
    scale: float = 0.0,
) -> Interval | None:
    """The interval of the mean difference; None where nothing says how sure it is.

    `width_of` says what it is from; with t(1 - tail, n - 1), and the normal law's 1 - tail.

    differences: one per seed, already paired
    errors: their standard errors over prompts, one per seed; None where none is stored
    tail: probability left out at each end
    scale: the largest absolute number that the differences were formed of
    """
    if not differences:
        return None
    quantiles = Quantiles(
        lambda degrees: float(t.ppf(1 - tail, degrees)), float(norm.ppf(1 - tail))
    )
    width = width_of(differences, errors, quantiles, scale)
    if width.half is None:
        return None
    mean = float(np.mean(differences))
    return Interval(mean, mean - width.half, mean + width.half, len(differences), width.std)


def smallest_detectable(std: float, n: int) -> float:
    """The smallest true difference whose interval lies on the claim's side 4 times out of 5.

    The power of the one-sided t test at 5 % (what one end of a 90 % interval is), from the
    noncentral t law: the difference d with P(T > t(0.95, n - 1)) = 0.8 for T with noncentrality
    d sqrt(n) / std.

    std: standard deviation of the paired differences over seeds
    n: seeds, at least two
    """
    if n < 2:
        raise ValueError(f"{n} seed has no standard deviation over seeds")
    needed = float(t.ppf(1 - TAIL, n - 1))
    shift = brentq(lambda d: float(nct.sf(needed, n - 1, d)) - POWER, 0.0, 100.0)
    return float(shift) * std / math.sqrt(n)
