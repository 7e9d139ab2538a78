"""1 when the number in the response is the prompt's answer, else 0."""

from __future__ import annotations

from typing import Any

from cory.config import ExactMatchConfig
from cory.episode import Episode
from cory.functional.answers import is_right


class ExactMatch:
    """Compares the last number of each response with the answer, by value (Ma et al., 4.2)."""

    def __init__(self, config: ExactMatchConfig, task: Any, device: Any) -> None:
        pass  # nothing to set, nothing to load

    def score(self, episodes: list[Episode]) -> None:
        """Fill `turn.score` of every turn with 1.0 or 0.0."""
        for episode in episodes:
            assert episode.prompt.answer is not None  # TASKS_WITH_ANSWERS
            for turn in episode.turns:
                turn.score = float(is_right(turn.response, episode.prompt.answer))
