"""Tasks: prompts, the answers to them, and the prompts of agents that answer after others.

A new task is a class with the members of `Task`, and a line in TASKS. May import: config,
distributed, episode, games.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from cory.episode import Prompt
from cory.tasks.anli import AnliForm, AnliTask
from cory.tasks.data.epochs import EpochSampler
from cory.tasks.game import GameTask
from cory.tasks.imdb import ImdbTask
from cory.tasks.mathematics import MathForm, MathTask
from cory.tasks.mmlu import MmluForm, MmluTask
from cory.tasks.questions import QuestionsForm, QuestionsTask


class Form(Protocol):
    """How a task asks questions and reads answers, without the task's data; a protocol."""

    def prompt_of(self, text: str) -> Prompt:
        """A text that is not in the task's data as a prompt of this task, without an answer."""
        ...

    def read(self, response: str) -> Hashable | None:
        """The answer in a response, equal to any other form of the same; None: unreadable."""
        ...

    def is_right(self, response: str, answer: str) -> bool:
        """Whether the response gives the prompt's answer; an unreadable one is wrong."""
        ...

    def observer_context(self, query: str, answers: Sequence[str]) -> str:
        """The prompt of an agent that sees the answers of others to `query`."""
        ...


class Task(Form, Protocol):
    """A form with data; a protocol, nothing inherits from it."""

    @property
    def sampler(self) -> EpochSampler:
        """Draws the training prompts; `rows` is their number."""
        ...

    def sample(self, count: int) -> list[Prompt]:
        """The next training prompts; they depend on the data stream alone."""
        ...

    def held_out(self, count: int | None, split: str) -> list[Prompt]:
        """The first `count` prompts of a split, `train` or `test`, or all; the same every time."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """The position in the training data, as plain values."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a `state_dict`."""
        ...


# name -> (settings, tokenizer, random stream of the order of training prompts) -> task
TASKS: Mapping[str, Callable[[Any, Any, np.random.Generator], Task]] = {
    "imdb": ImdbTask,
    "gsm8k": QuestionsTask,
    "arithmetic": QuestionsTask,
    "tinygsm": QuestionsTask,
    "anli": AnliTask,
    "math": MathTask,
    "mmlu": MmluTask,
    "taboo": GameTask,
    "twenty_questions": GameTask,
    "guess_my_city": GameTask,
}
# name of a task with answers -> (settings -> its form), for questions that are not in its data
FORMS: Mapping[str, Callable[[Any], Form]] = {
    "gsm8k": QuestionsForm,
    "arithmetic": QuestionsForm,
    "tinygsm": QuestionsForm,
    "anli": AnliForm,
    "math": MathForm,
    "mmlu": MmluForm,
}
