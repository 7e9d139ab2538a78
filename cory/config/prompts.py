"""Settings of `task=prompts`: prompts of one's own, from a file, a folder or the hub."""

from collections.abc import Sequence
from dataclasses import dataclass

from cory.config.checks import (
    fields_of,
    require,
    require_at_least,
    require_choice,
    require_fields,
)
from cory.config.task import PickConfig

ANSWERS = ("text", "number", "choice", "formula")


@dataclass
class PromptsConfig(PickConfig):
    """Settings of `task=prompts`."""

    name: str
    source: str  # path | hub
    path: str  # path: one file, or a folder with a file per split; hub: data set name
    subset: str | None  # hub: which of the forms that the data set has
    prompt_column: str  # texts, or chat messages
    answer_column: str | None  # right answers; None: there are none
    answers: str  # of ANSWERS: how answers are read and compared
    seconds: int  # formula: processor time in which two answers must be found equal
    columns: list[str] | None  # handed to the reward; None: all but prompt_column
    train_split: str  # split for training prompts, or a slice of it
    test_split: str | None  # ... for evaluation prompts; None: by held_out_share
    held_out_share: float | None  # of the training split's prompts, for evaluation
    max_prompt_tokens: int  # longer training prompts are left out, longer test prompts refused
    chat: bool  # the model's chat template goes around prompts
    prompt_template: str  # {prompt}, and other columns by their names
    observer_template: str  # {query}: the prompt; {answers}: what was said before
    answer_template: str  # one answer inside {answers}: {response}, and {query}
    answer_separator: str  # between two answers, with three or more agents

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

    def __post_init__(self) -> None:
        self.check_picks()
        require_choice("task.source", self.source, ("path", "hub"))
        require_choice("task.answers", self.answers, ANSWERS)
        require_at_least("task.seconds", self.seconds, 1)
        require_at_least("task.max_prompt_tokens", self.max_prompt_tokens, 1)
        require(
            self.answer_column != self.prompt_column,
            f"task.answer_column={self.answer_column} is task.prompt_column, too: agents would "
            f"read the answers",
        )
        self._check_parts()
        require_fields("task.observer_template", self.observer_template, ("query", "answers"))
        require_fields("task.answer_template", self.answer_template, ("response",), ("query",))
        require_fields("task.prompt_template", self.prompt_template, ("prompt",), None)

    def with_answers(self, query: str, answers: Sequence[str]) -> str:
        """The prompt of an agent that answers after others.

        Answers keep the space before them, so that `{query}{response}` is the completed text.
        """
        quoted = self.answer_separator.join(
            self.answer_template.format(query=query, response=answer.rstrip()) for answer in answers
        )
        return self.observer_template.format(query=query, answers=quoted)

    def _check_parts(self) -> None:
        """Test prompts come either from a split or from a share."""
        share = self.held_out_share
        require(
            self.test_split is not None or share is not None,
            "task=prompts needs prompts to evaluate on: task.test_split (of a folder or of the "
            "hub, or a slice as 'train[90%:]'), or task.held_out_share=0.1 of task.train_split",
        )
        require(
            self.test_split is None or share is None,
            f"task.held_out_share={share} and task.test_split={self.test_split} both name the test "
            f"prompts; set one of them to null",
        )
        require(
            share is None or 0 < share < 1,
            f"task.held_out_share must be above 0 and below 1, got {share}",
        )
