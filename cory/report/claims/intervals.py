"""Intervals of differences over seeds, and the smallest difference that they could show."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.stats import nct, norm, t

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
    differences: Sequence[float], errors: Sequence[float | None] = (), tail: float = TAIL
) -> Interval | None:
    """The interval of the mean difference; None where nothing says how sure it is.

    Over several seeds: Student's t interval of the differences, mean +- t(1 - tail, n - 1) s /
    sqrt(n). Where all differences are equal, as shares of few prompts can be, s = 0 says nothing;
    then, and for a single seed, the standard errors that runs have stored take its place, with a
    normal law, if every seed has one.

    differences: one per seed, already paired
    errors: their standard errors over prompts, one per seed; None where none is stored
    tail: probability left out at each end
    """
    n = len(differences)
    if not n or not all(map(math.isfinite, differences)):
        return None
    mean = float(np.mean(differences))
    std = float(np.std(differences, ddof=1)) if n > 1 else None
    if std is not None and std > 1e-12 * max(map(abs, differences)):
        half = float(t.ppf(1 - tail, n - 1)) * std / math.sqrt(n)
    else:
        known = [error for error in errors if error is not None]
        if not known or len(known) < n:
            return None
        half = float(norm.ppf(1 - tail)) * math.sqrt(sum(error**2 for error in known)) / n
    return Interval(mean, mean - half, mean + half, n, std)


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
