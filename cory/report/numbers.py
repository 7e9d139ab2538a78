"""Numbers of runs as text: differences paired by seed, intervals, aligned columns."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from cory.functional.statistics import LEVEL, ROUNDING

INTERVAL = f"{100 * LEVEL:.0f} % interval"


def paired(left: pd.Series, right: pd.Series) -> pd.Series:
    """left - right for each seed that both have, all three indexed by seed.

    What differs by float32's rounding alone is equal.
    """
    left, right = left.dropna().align(right.dropna(), join="inner")
    return (left - right).mask(np.isclose(left, right, rtol=ROUNDING, atol=0), 0.0)


def interval_text(low: float, high: float) -> str:
    """`+0.563 to +0.924`; empty where it is not known (NaN)."""
    return "" if math.isnan(low) else f"{low + 0.0:+.3f} to {high + 0.0:+.3f}"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A table as text: the first column to the left, the others to the right.

    rows: the heads first; columns that have nothing but a head are left out
    """
    table = pd.DataFrame(rows[1:], columns=rows[0]).set_index(rows[0][0]).rename_axis(None)
    return str(table.loc[:, (table != "").any()].to_string())
