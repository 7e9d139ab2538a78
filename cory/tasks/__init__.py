"""Tasks: prompts, the answers to them, and the prompts of agents that answer after others.

A new task is a class with the members of `Task`, and a line in the table TASKS of
cory/config/experiment.py.
"""

from collections.abc import Hashable, Sequence
from typing import Protocol

from cory.episode import Prompt
from cory.seeding import EpochSampler


class Form(Protocol):
    """How a task asks questions and reads answers, without the task's data; a protocol."""

    def prompt_of(self, text: str) -> Prompt:
        """A text that is not in the task's data as a prompt of this task, without an answer."""

    def read(self, response: str) -> Hashable | None:
        """The answer in a response, equal to any other form of the same; None: unreadable."""

    def is_right(self, response: str, answer: str) -> bool:
        """Whether the response gives the prompt's answer; an unreadable one is wrong."""

    def observer_context(self, query: str, answers: Sequence[str]) -> str:
        """The prompt of an agent that sees the answers of others to `query`."""


class Task(Form, Protocol):
    """A form with data; a protocol, nothing inherits from it.

    A class whose `form` names the class of its form can be asked questions that are not in its
    data: finished agents then need no data (cory/inference).
    """

    sampler: EpochSampler  # of training prompts; `rows` are all. A checkpoint keeps its state

    def sample(self, count: int) -> list[Prompt]:
        """The next training prompts; they depend on the data stream alone."""

    def held_out(self, count: int | None, split: str) -> list[Prompt]:
        """The first `count` prompts of a split, `train` or `test`, or all; the same every time."""
