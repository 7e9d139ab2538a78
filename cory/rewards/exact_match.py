"""Exact match: 1 if the response gives the prompt's answer, else 0 (Ma et al., 4.2).

And no reward but what a play returns.
"""

from collections.abc import Sequence
from typing import Any

from cory.config import ConfigError, ExactMatchConfig
from cory.rewards import Reward, Row
from cory.tasks import Task
from cory.tasks.answers import judged


class ExactMatch(Reward):
    """The task reads each response and compares it with the answer."""

    def __init__(self, config: ExactMatchConfig, task: Task, device: Any, run: Any) -> None:
        self.task = task

    def scores(self, rows: Sequence[Row]) -> list[float]:
        """1.0 or 0.0; fills `turn.right`."""
        # config/rules.py: the task has answers
        rights = judged(self.task, [(turn.response, str(prompt.answer)) for prompt, turn in rows])
        for (_, turn), right in zip(rows, rights, strict=True):
            turn.right = right
        return [*map(float, rights)]


class Returned(Reward):
    """Stands where `algorithm.play` returns the rewards; refuses to score."""

    def __init__(self, config: Any, task: Any, device: Any, run: Any) -> None:
        pass

    def scores(self, rows: Sequence[Row]) -> list[float]:
        """ConfigError: nobody has returned any."""
        raise ConfigError("reward=returned: nothing returns rewards; choose another reward")
