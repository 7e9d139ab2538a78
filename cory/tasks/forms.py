"""What the forms of tasks have in common: with answers of one kind, or without any."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any


class AnswerForm:
    """Compares answers as they are read, and quotes them in the wording of the settings."""

    def __init__(self, config: Any, read: Callable[[str], Hashable | None]) -> None:
        """read: response -> its answer, equal to any other form of the same; None: unreadable"""
        self.config = config
        self.read = read

    def is_right(self, response: str, answer: str) -> bool:
        """Whether the response gives the prompt's answer; an unreadable one is wrong."""
        given = self.read(response)
        return given is not None and given == self.read(answer)

    def observer_context(self, query: str, answers: Sequence[str]) -> str:
        """The prompt `query` with the answers of other agents."""
        prompt: str = self.config.with_answers(query, answers)
        return prompt


class NoAnswers:
    """Nothing is read from responses, and none is right or wrong."""

    def read(self, response: str) -> None:
        """None: the response gives no answer."""

    def is_right(self, response: str, answer: str) -> bool:
        """False: prompts have no answers."""
        return False
