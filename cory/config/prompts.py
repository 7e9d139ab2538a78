"""Settings of `task=prompts`: prompts of one's own, from a file, a folder or the hub."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from cory.config.base import Between0And1, Conflict, Count, Text, fields_of, with_fields
from cory.config.task import PickConfig


class PromptsConfig(PickConfig):
    """Settings of `task=prompts`."""

    source: Literal["path", "hub"]
    path: Text  # path: one file, or a folder with a file per split; hub: data set name
    subset: Text | None  # hub: which of the forms that the data set has
    prompt_column: Text  # texts, or chat messages
    answer_column: Text | None  # right answers; None: there are none
    answers: Literal["text", "number", "choice", "formula"]  # how they are read and compared
    seconds: Count  # formula: processor time in which two answers must be found equal
    columns: list[Text] | None  # handed to the reward; None: all but prompt_column
    train_split: Text  # split for training prompts, or a slice of it
    test_split: Text | None  # ... for evaluation prompts; None: by held_out_share
    held_out_share: Between0And1 | None  # of the training split's prompts, for evaluation
    chat: bool  # the model's chat template goes around prompts
    prompt_template: Annotated[Text, with_fields("prompt", allowed=None)]  # and columns' names
    observer_template: Annotated[Text, with_fields("query", "answers")]
    answer_template: Annotated[Text, with_fields("response", allowed=["query"])]
    answer_separator: Text  # between two answers, with three or more agents

    @property
    def has_answers(self) -> bool:
        return self.answer_column is not None

    @property
    def answers_from(self) -> str:
        return "task.answer_column"

    @property
    def template_columns(self) -> list[str]:
        """The columns that `prompt_template` names beside {prompt}."""
        return [field for field in fields_of(self.prompt_template) if field != "prompt"]

    def conflicts(self) -> Iterator[Conflict]:
        if self.answer_column == self.prompt_column:
            yield "answer_column", "must not be task.prompt_column: agents would read the answers"
        if self.test_split is None and self.held_out_share is None:
            yield (
                "test_split",
                "must be given (of a folder or of the hub, or a slice as 'train[90%:]'), or "
                "task.held_out_share=0.1 of task.train_split: there is nothing to evaluate on",
            )
        if self.test_split is not None and self.held_out_share is not None:
            yield (
                "held_out_share",
                f"must be null with task.test_split={self.test_split}: both name the test prompts",
            )

    def with_answers(self, query: str, answers: Sequence[str]) -> str:
        """The prompt of an agent that answers after others.

        Answers keep the space before them, so that `{query}{response}` is the completed text.
        """
        quoted = self.answer_separator.join(
            self.answer_template.format(query=query, response=answer.rstrip()) for answer in answers
        )
        return self.observer_template.format(query=query, answers=quoted)
