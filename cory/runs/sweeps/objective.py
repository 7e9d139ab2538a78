"""The number by which a sweeper judges a finished run."""

import math
import re
from pathlib import Path

from cory.config import Config, PPOConfig, nearest, require
from cory.config.options import ALGORITHMS
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


def require_objective(config: Config) -> None:
    """Refuse an objective that the run cannot log, so that no first run is made in vain.

    An algorithm of a user's own package may have other metrics.
    """
    from cory.runtime.metric_names import require_metric  # noqa: PLC0415

    algorithm, metric = config.algorithm, config.objective
    if metric is None or algorithm.name not in ALGORITHMS:
        return
    require_metric("objective", metric)
    agent = re.fullmatch(r"agent_(\d+)", metric.rpartition("/")[2])
    if agent and isinstance(algorithm, PPOConfig) and not algorithm.holds_debates:
        agents = algorithm.policy_count()
        require(
            int(agent[1]) < agents,
            f"objective={metric}: algorithm={algorithm.name} has "
            f"{'the one agent agent_0' if agents == 1 else f'agent_0 to agent_{agents - 1}'}",
        )
