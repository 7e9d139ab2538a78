"""Means and their standard errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np


def mean(values: Iterable[float]) -> float:
    """The mean of at least one value."""
    numbers = list(values)
    return sum(numbers) / len(numbers)


def standard_error(values: Sequence[float]) -> float | None:
    """Standard error of the mean; None below two values."""
    if len(values) < 2:
        return None
    return float(np.std(values, ddof=1)) / math.sqrt(len(values))


def binomial_se(share: float, count: int) -> float:
    """Standard error of a share of `count` trials."""
    return math.sqrt(share * (1 - share) / count)
