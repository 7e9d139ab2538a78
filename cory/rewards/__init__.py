"""Rewards: each fills `turn.score` of all turns of an episode but absent ones.

A new reward is a `Reward`, and a line in the table REWARDS of cory/config/experiment.py. May
import: config, distributed, endpoint, episode, functional, games, models, runs, tasks.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from cory.episode import Episode, Metrics


class Reward(ABC):
    """Scores the turns of episodes; one that does not follow the run has `score` alone."""

    @abstractmethod
    def score(self, episodes: list[Episode]) -> None:
        """Fills `turn.score` of every turn that is not absent."""

    def at(self, done: int) -> None:  # noqa: B027  most rewards do not follow the run
        """Called before an iteration, or an evaluation, with the number of iterations done."""

    def metrics(self) -> Metrics:
        """What is to be logged, of the scores since the last call."""
        return {}


@dataclass(frozen=True)
class RunFacts:
    """What a reward may want to know of the run that it scores for; its builder is told."""

    folder: Path
    iterations: int
    part: str | None = None  # its name in a sum of rewards


class ScoredOnce(Reward):
    """Leaves turns alone that have a score, as debaters are shown: none is scored a second time.

    For rewards that score a turn by itself, whatever the others of its episode are.
    """

    def __init__(self, reward: Reward) -> None:
        self.reward = reward

    def score(self, episodes: list[Episode]) -> None:
        """As `Reward`; of an episode only the turns without a score are scored."""
        left = [
            Episode(episode.prompt, unscored)
            for episode in episodes
            if (unscored := [t for t in episode.turns if t.score is None and not t.absent])
        ]
        if left:
            self.reward.score(left)
