"""Rewards: each fills `turn.score` of the episodes it is given, but of absent turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from cory.episode import Episode
from cory.rewards.exact_match import ExactMatch
from cory.rewards.game_outcome import GameOutcome
from cory.rewards.sentiment import Sentiment
from cory.rewards.verifier import Verifier


class Reward(Protocol):
    """What an algorithm needs of a judge; nothing inherits from it."""

    def score(self, episodes: list[Episode]) -> None:
        """Fill `turn.score` of every turn that came."""
        ...


# config, task, device -> judge
REWARDS: Mapping[str, Callable[[Any, Any, Any], Reward]] = {
    "sentiment": Sentiment,
    "exact_match": ExactMatch,
    "verifier": Verifier,
    "game_outcome": GameOutcome,
}
