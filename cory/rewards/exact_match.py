"""1 when the answer found in the response is the task's own, else 0."""

from __future__ import annotations

from typing import Any

from cory.config import ExactMatchConfig
from cory.episode import Episode


class ExactMatch:
    """Asks the task whether a response answers its prompt rightly."""

    def __init__(self, config: ExactMatchConfig, task: Any, device: Any) -> None:
        self.task = task

    def score(self, episodes: list[Episode]) -> None:
        """Fill `turn.score` with 1.0 or 0.0."""
        for episode in episodes:
            for turn in episode.turns:
                turn.score = float(self.task.is_right(episode.prompt, turn.response))
