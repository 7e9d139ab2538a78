"""Measures the time of an iteration by phase."""

import time

from cory.episode import Metrics


class Clock:
    """Seconds spent per phase of an iteration."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.mark = time.perf_counter()

    def lap(self, phase: str) -> None:
        """Count the time since the last call towards `phase`."""
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self.mark
        self.mark = now

    def metrics(self) -> Metrics:
        """`time/<phase>` and their sum."""
        named = {f"time/{phase}": seconds for phase, seconds in self.seconds.items()}
        return named | {"time/iteration_s": sum(self.seconds.values())}
