"""Several rewards, weighted and added (`reward=sum`)."""

from dataclasses import replace

import torch

from cory.config import SumConfig, builder, require
from cory.episode import Episode, Metrics, Turn
from cory.rewards import Reward, RunFacts, RunReward
from cory.rewards.python_function import PythonReward
from cory.tasks import Task


class WeightedSum:
    """Adds the scores of its parts, each times its weight.

    A function of the user's may leave a turn to the other parts by returning None; the turn's score
    is then the sum of those that apply to it, as in TRL.
    """

    def __init__(self, config: SumConfig, task: Task, device: torch.device) -> None:
        self.config = config
        self.parts: dict[str, Reward] = {}
        for name, settings in config.parts.items():
            part = builder("reward", settings.name)(settings, task, device)
            if isinstance(part, PythonReward):
                part.partial = True
            self.parts[name] = part
        self.followers = {
            name: part for name, part in self.parts.items() if isinstance(part, RunReward)
        }

    @staticmethod
    def prepare(config: SumConfig) -> None:
        """Refuse what can be refused before models are loaded."""
        for settings in config.parts.values():
            build = builder("reward", settings.name)
            if hasattr(build, "prepare"):
                build.prepare(settings)

    def begin(self, run: RunFacts) -> None:
        """As `RunReward`."""
        for name, part in self.followers.items():
            part.begin(replace(run, part=name))

    def at(self, done: int) -> None:
        """As `RunReward`."""
        for part in self.followers.values():
            part.at(done)

    def metrics(self) -> Metrics:
        """The parts' own metrics, each under the name of its part."""
        logged: Metrics = {}
        for name, part in self.followers.items():
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
            turn.score = self._total(turn)

    def _total(self, turn: Turn) -> float:
        """The weighted sum of the parts that apply to a turn."""
        weights = self.config.weights
        scores = [
            weights.get(name, 1.0) * score
            for name, score in turn.parts.items()
            if score is not None
        ]
        require(
            len(scores) > 0,
            f"reward=sum: no part has a score for the response {turn.response[:60]!r}; at least "
            f"one has to apply to every response",
        )
        return sum(scores)
