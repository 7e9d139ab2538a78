"""Several rewards, weighted and added (`reward=sum`)."""

from dataclasses import replace

import torch

from cory.config import SumConfig, builder, require
from cory.episode import Episode, Metrics
from cory.rewards import Reward, RunFacts
from cory.tasks import Task


class WeightedSum(Reward):
    """Adds the scores of its parts, each times its weight.

    A function of the user's may leave a turn to the other parts by returning None; the turn's score
    is then the sum of those that apply to it, as in TRL.
    """

    def __init__(self, config: SumConfig, task: Task, device: torch.device, run: RunFacts) -> None:
        self.config = config
        self.parts: dict[str, Reward] = {
            name: builder("reward", part.name)(part, task, device, replace(run, part=name))
            for name, part in config.parts.items()
        }

    def at(self, done: int) -> None:
        """As `Reward`."""
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
        weights = self.config.weights
        for turn in turns:
            scores = [
                weights.get(name, 1.0) * score
                for name, score in turn.parts.items()
                if score is not None
            ]
            require(
                len(scores) > 0,
                f"reward=sum: no part has a score for the response {turn.response[:60]!r}; at "
                f"least one has to apply to every response",
            )
            turn.score = sum(scores)
