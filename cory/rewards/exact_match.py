"""Exact match: 1 if the response gives the prompt's answer, else 0 (Ma et al., 4.2).

And no reward but what a play returns.
"""

from typing import Any

from cory.config import ConfigError, ExactMatchConfig
from cory.episode import Episode
from cory.rewards import Reward
from cory.tasks import Task
from cory.tasks.answers import judged


class ExactMatch(Reward):
    """The task reads each response and compares it with the answer."""

    def __init__(self, config: ExactMatchConfig, task: Task, device: Any, run: Any) -> None:
        self.task = task

    def score(self, episodes: list[Episode]) -> None:
        """Fills `turn.right`, and `turn.score` with 1.0 or 0.0, unless a turn is absent."""
        rows = [(e.prompt, turn) for e in episodes for turn in e.turns if not turn.absent]
        # config/rules.py: the task has answers
        asked = [(turn.response, str(prompt.answer)) for prompt, turn in rows]
        for (_, turn), right in zip(rows, judged(self.task, asked), strict=True):
            turn.right, turn.score = right, float(right)


class Returned(Reward):
    """Stands where `algorithm.play` returns the rewards; refuses to score."""

    def __init__(self, config: Any, task: Any, device: Any, run: Any) -> None:
        pass

    def score(self, episodes: list[Episode]) -> None:
        """ConfigError: nobody has returned any."""
        raise ConfigError("reward=returned: nothing returns rewards; choose another reward")
