"""Stops a run whose metrics are no longer finite or pass a bound."""

import math

from cory.episode import Metrics


class TrainingDiverged(RuntimeError):
    """A metric is no longer finite, or passed a bound of `algorithm.stop`."""

    def __init__(self, iteration: int, reason: str, metrics: Metrics) -> None:
        """iteration: from 0; the message counts from 1, as the progress bar does"""
        super().__init__(f"iteration {iteration + 1}: {reason}; the run was stopped")
        self.metrics = metrics


def require_finite(iteration: int, metrics: Metrics) -> None:
    """TrainingDiverged where a metric is not finite."""
    for key, value in metrics.items():
        if not math.isfinite(value):
            raise TrainingDiverged(iteration, f"{key} is not finite", metrics)
