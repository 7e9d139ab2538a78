"""The number by which a sweeper judges a finished run."""

import json
import math
from pathlib import Path

from cory.config import nearest, require
from cory.runs.run_dir import RECORD


def objective_of(run_dir: Path, metric: str | None) -> float | None:
    """The last value of a metric that a finished run logged; None where none is named.

    ConfigError for a metric that the run does not have, with the nearest one that it has, and for
    a value that is not finite.
    """
    if metric is None:
        return None
    final = json.loads((run_dir / RECORD).read_text(encoding="utf-8"))["final"]
    require(
        metric in final,
        f"objective={metric} is no metric of the run in {run_dir}{nearest(metric, sorted(final))}",
    )
    value = float(final[metric])
    require(
        math.isfinite(value), f"objective={metric} of the run in {run_dir} is {value}, not a number"
    )
    return value
