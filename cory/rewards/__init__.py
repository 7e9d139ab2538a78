"""Rewards: each fills `turn.score` of all turns of an episode but absent ones.

A new reward is a class with the method of `Reward`, and a line in REWARDS. May import: config,
distributed, episode, functional, games, models, runs, tasks.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from cory.episode import Episode
from cory.rewards.exact_match import ExactMatch
from cory.rewards.game_outcome import GameOutcome
from cory.rewards.sentiment import Sentiment
from cory.rewards.verifier import Verifier


class Reward(Protocol):
    """Scores the turns of episodes; a protocol, nothing inherits from it."""

    def score(self, episodes: list[Episode]) -> None:
        """Fills `turn.score` of every turn that is not absent."""
        ...


# name -> (settings, task, device) -> reward
REWARDS: Mapping[str, Callable[[Any, Any, Any], Reward]] = {
    "sentiment": Sentiment,
    "exact_match": ExactMatch,
    "verifier": Verifier,
    "game_outcome": GameOutcome,
}
