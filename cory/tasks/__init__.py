"""Tasks: where prompts come from, and what an observer is shown."""

from __future__ import annotations

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
    """How a task's questions are put and their answers read; it needs none of the task's data."""

    def prompt_of(self, text: str) -> Prompt:
        """A text from elsewhere as a prompt of this task."""
        ...

    def read(self, response: str) -> Hashable | None:
        """The answer that a response gives, alike for equal answers; None: none can be read."""
        ...

    def is_right(self, response: str, answer: str) -> bool:
        """Whether the response gives the prompt's answer; one that cannot be read is wrong."""
        ...

    def observer_context(self, query: str, answers: Sequence[str]) -> str:
        """What an agent sees that answers after others."""
        ...


class Task(Form, Protocol):
    """What an algorithm needs of a task; nothing inherits from it."""

    @property
    def sampler(self) -> EpochSampler:
        """Over the training prompts."""
        ...

    def sample(self, count: int) -> list[Prompt]:
        """The next training prompts; a function of the data stream alone."""
        ...

    def held_out(self, count: int | None, split: str) -> list[Prompt]:
        """The first `count` prompts of a split, `train` or `test`, or all; the same every time."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Where in its data the task is; plain values."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        ...


# tokenizer: text -> token ids and back; the data stream
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
# the tasks with answers, which can be asked questions from elsewhere: their settings -> the form
FORMS: Mapping[str, Callable[[Any], Form]] = {
    "gsm8k": QuestionsForm,
    "arithmetic": QuestionsForm,
    "tinygsm": QuestionsForm,
    "anli": AnliForm,
    "math": MathForm,
    "mmlu": MmluForm,
}
