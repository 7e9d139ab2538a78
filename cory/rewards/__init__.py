"""Rewards: each fills `turn.score` of all turns of an episode but absent ones.

A new reward is a `Reward`, and a line in the table REWARDS of cory/config/experiment.py.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cory.config import SumConfig, builder, require
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


class WeightedSum(Reward):
    """Adds the scores of several rewards, each times its weight (`reward=sum`).

    A function of the user's may leave a turn to the other parts by returning None; the turn's score
    is then the sum of those that apply to it, as in TRL.
    """

    def __init__(self, config: SumConfig, task: Any, device: Any, run: RunFacts) -> None:
        self.weights = config.weights
        self.parts: dict[str, Reward] = {
            name: builder("reward", part.name)(part, task, device, replace(run, part=name))
            for name, part in config.parts.items()
        }

    def at(self, done: int) -> None:
        for part in self.parts.values():
            part.at(done)

    def metrics(self) -> Metrics:
        """The parts' own metrics, each under the name of its part."""
        logged: Metrics = {}
        for name, part in self.parts.items():
            for key, value in part.metrics().items():
                family, _, rest = key.partition("/")
                logged[f"{family}/{name}/{rest}"] = value
        return logged

    def score(self, episodes: list[Episode]) -> None:
        """Fills `turn.parts`, and `turn.score` with their sum, unless a turn is absent.

        ConfigError where no part has a score for a turn
        """
        turns = [turn for episode in episodes for turn in episode.turns if not turn.absent]
        for name, part in self.parts.items():
            for turn in turns:
                turn.score = None
            part.score(episodes)
            for turn in turns:
                turn.parts[name] = turn.score
        for turn in turns:
            scores = [
                self.weights.get(name, 1.0) * score
                for name, score in turn.parts.items()
                if score is not None
            ]
            require(
                len(scores) > 0,
                f"reward=sum: no part has a score for the response {turn.response[:60]!r}; at "
                f"least one has to apply to every response",
            )
            turn.score = sum(scores)
