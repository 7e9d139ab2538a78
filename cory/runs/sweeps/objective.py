"""The number by which a sweeper judges a finished run."""

import math
from pathlib import Path

from cory.config import nearest, require
from cory.runs.run_dir import RECORD, read_record


def objective_of(run_dir: Path, metric: str | None) -> float | None:
    """The last value of a metric that a finished run logged; None where none is named.

    ConfigError for a metric that the run does not have, with the nearest one that it has, and for
    a value that is not finite.
    """
    if metric is None:
        return None
    record = read_record(run_dir)
    final = {} if record is None else record.get("final")
    require(isinstance(final, dict), f"{run_dir / RECORD} has no final metrics")
    assert isinstance(final, dict)
    require(
        metric in final,
        f"objective={metric} is no metric of the run in {run_dir}{nearest(metric, sorted(final))}",
    )
    value = final[metric]
    require(
        isinstance(value, int | float) and math.isfinite(value),
        f"objective={metric} of the run in {run_dir} is {value}, not a number",
    )
    return float(value)
