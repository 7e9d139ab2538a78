"""Numbers of runs: one for each seed, their mean, and differences that are paired by seed."""

import math
from typing import NamedTuple

import pandas as pd

from cory.report.intervals import Interval, mean_interval


class Difference(NamedTuple):
    """The mean of left - right over the seeds that both have, and its interval if it has one."""

    mean: float
    interval: Interval | None
    seeds: int

    @property
    def decided(self) -> bool:
        """Whether the interval lies on one side of 0."""
        return self.interval is not None and (self.interval[0] > 0 or self.interval[1] < 0)


def at_the_end(lines: pd.DataFrame, last: int, iteration: int | None = None) -> pd.Series:
    """Per seed, the mean over the last values, or the value of one iteration.

    lines: of one metric of one experiment, with columns seed, iteration, value
    last: how many values
    """
    if iteration is not None:
        return lines[lines.iteration == iteration].set_index("seed").value
    ordered = lines.sort_values("iteration")
    return ordered.groupby("seed").tail(last).groupby("seed").value.mean()


def paired(left: pd.Series, right: pd.Series) -> Difference | None:
    """left - right, both indexed by seed; None below two common seeds."""
    each = (left - right).dropna()
    if len(each) < 2:
        return None
    return Difference(float(each.mean()), mean_interval(each.to_numpy()), len(each))


def written(value: float, digits: int) -> str:
    """A number with so many decimals, never as -0.00."""
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if not float(text) else text


def decimals(values: pd.Series) -> int:
    """Decimals that show two digits of the spread over seeds, else three of the number."""
    if len(values) == 1 and float(values.iloc[0]).is_integer():
        return 0
    size = values.std() if len(values) > 1 and values.std() > 0 else abs(values.mean()) / 10
    if not size or not math.isfinite(size):
        return 2
    return min(max(1 - math.floor(math.log10(size)), 0), 6)
