"""Rewards: each scores turns, one by one.

A new reward is a `Reward`, and a line in the table REWARDS of cory/config/experiment.py.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cory.config import SumConfig, builder, require
from cory.episode import Episode, Metrics, Prompt, Turn

Row = tuple[Prompt, Turn]  # what a turn answers, and the turn


class Reward(ABC):
    """Scores the turns of episodes; one that does not follow the run has `scores` alone."""

    def score(self, episodes: list[Episode]) -> None:
        """Fills `turn.score` of every turn that has none and is not absent."""
        turns = [(e.prompt, turn) for e in episodes for turn in e.turns]
        rows = [row for row in turns if row[1].score is None and not row[1].absent]
        if rows:
            for (_, turn), score in zip(rows, self.scores(rows), strict=True):
                turn.score = score

    @abstractmethod
    def scores(self, rows: Sequence[Row]) -> Sequence[float | None]:
        """The score of each turn; None leaves it to the other parts of a sum."""

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

    def scores(self, rows: Sequence[Row]) -> list[float]:
        """Their sums; fills `turn.parts`. ConfigError where no part has a score for a turn."""
        for name, part in self.parts.items():
            for (_, turn), score in zip(rows, part.scores(rows), strict=True):
                turn.parts[name] = score
        sums = []
        for _, turn in rows:
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
            sums.append(sum(scores))
        return sums
