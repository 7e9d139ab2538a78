"""Agents of other runs, whose weights are in memory only while they play."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cory.config import SamplingConfig
from cory.episode import Asked, Turn
from cory.models.policy import Policy


class Visitor:
    """An agent of another run; an `Actor`, between `arrive` and `leave`."""

    def __init__(self, name: str, load: Callable[[], Policy]) -> None:
        """load: the agent with its weights on the device"""
        self.name = name
        self._load = load
        self._policy: Policy | None = None

    def arrive(self) -> None:
        """Load its weights, unless they are there."""
        if self._policy is None:
            self._policy = self._load()

    def leave(self) -> None:
        """Let its weights go."""
        self._policy = None

    def turns(
        self, asked: Sequence[Asked], limit: int, sampling: SamplingConfig | None
    ) -> list[Turn]:
        """As `Policy.turns`; ValueError where its weights are not there."""
        if self._policy is None:
            raise ValueError(f"{self.name} has not been loaded")
        return self._policy.turns(asked, limit, sampling)
