"""How wide the interval of a mean over seeds is: one rule for claims and for comparisons of runs.

Quantiles are the caller's: those of claims come from scipy, which not every installation has.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

ROUNDING = 1e-12  # relative to the numbers that are compared: less is rounding


@dataclass(frozen=True)
class Quantiles:
    """Where two laws leave out one and the same probability."""

    student: Callable[[int], float]  # degrees of freedom -> of Student's t
    normal: float


@dataclass(frozen=True)
class Width:
    """Half of an interval's width, and what it is from."""

    half: float | None  # None: nothing says how sure the mean is
    std: float | None  # the sample's (n - 1); 0 where it is rounding alone; None of one value
    over_prompts: bool = False  # from the standard errors over prompts alone


def width_of(
    values: Sequence[float],
    errors: Sequence[float | None],
    quantiles: Quantiles,
    scale: float = 0.0,
) -> Width:
    """Half of the width of the interval of a mean.

    Over several values Student's t: t(n - 1) s / sqrt(n). Where they do not differ, or there is but
    one, s says nothing; then the standard errors over prompts take its place, with a normal law, if
    every value has one and not all of them are 0. Seeds share their test prompts, so that equal
    values together say no more than one of them: the error of the mean is theirs, unreduced.

    values: at least one, one per seed
    errors: their standard errors over prompts, one per value; None where none is known
    scale: the largest absolute number that was subtracted to get the values; they carry its
        rounding, however small they are themselves
    """
    count = len(values)
    if not all(map(math.isfinite, values)):
        return Width(None, math.nan if count > 1 else None)
    std = float(np.std(values, ddof=1)) if count > 1 else None
    if std is not None and std > ROUNDING * max(scale, *map(abs, values)):
        return Width(quantiles.student(count - 1) * std / math.sqrt(count), std)
    std = None if std is None else 0.0
    known = [error for error in errors if error is not None]
    if len(known) < count or not any(known):
        return Width(None, std)
    half = quantiles.normal * math.sqrt(sum(error**2 for error in known) / count)
    return Width(half, std, over_prompts=True)
