"""Rewards: each fills `turn.score` of every turn of the episodes it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from cory.episode import Episode
from cory.rewards.exact_match import ExactMatch
from cory.rewards.sentiment import Sentiment


class Reward(Protocol):
    """What an algorithm needs of a judge; nothing inherits from it."""

    def score(self, episodes: list[Episode]) -> None:
        """Fill `turn.score` of every turn."""
        ...


# config, task, device -> judge
REWARDS: Mapping[str, Callable[[Any, Any, Any], Reward]] = {
    "sentiment": Sentiment,
    "exact_match": ExactMatch,
}
