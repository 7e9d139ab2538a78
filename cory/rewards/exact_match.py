"""Exact match: 1 if the response gives the prompt's answer, else 0 (Ma et al., 4.2)."""

from typing import Any

from cory.config import ExactMatchConfig
from cory.episode import Episode
from cory.tasks import Task


class ExactMatch:
    """The task reads each response and compares it with the answer."""

    def __init__(self, config: ExactMatchConfig, task: Task, device: Any) -> None:
        self.task = task

    def score(self, episodes: list[Episode]) -> None:
        """Fills `turn.right`, and `turn.score` with 1.0 or 0.0, unless a turn is absent."""
        for episode in episodes:
            assert episode.prompt.answer is not None  # check_together: the task has answers
            for turn in episode.turns:
                if not turn.absent:
                    turn.right = self.task.is_right(turn.response, episode.prompt.answer)
                    turn.score = float(turn.right)
