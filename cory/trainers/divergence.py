"""The end of a run whose numbers have gone astray."""

from __future__ import annotations

from cory.episode import Metrics


class TrainingDiverged(RuntimeError):
    """A number was no longer finite, or passed a bound of `algorithm.stop`."""

    def __init__(self, iteration: int, reason: str, metrics: Metrics) -> None:
        super().__init__(f"iteration {iteration}: {reason}; the run was stopped")
        self.metrics = metrics
