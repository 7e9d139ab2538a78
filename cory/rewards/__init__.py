"""Rewards: each fills `turn.score` of all turns of an episode but absent ones.

A new reward is a class with the method of `Reward`, and a line in the table REWARDS of
cory/config/options.py. May import: config, distributed, episode, functional, games, models, runs,
tasks.
"""

from typing import Protocol

from cory.episode import Episode


class Reward(Protocol):
    """Scores the turns of episodes; a protocol, nothing inherits from it."""

    def score(self, episodes: list[Episode]) -> None:
        """Fills `turn.score` of every turn that is not absent."""
        ...
