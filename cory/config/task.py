"""Settings of `task=`."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from cory.config.base import (
    Between0And1,
    Conflict,
    Count,
    Number,
    Settings,
    Text,
    fields_of,
    with_fields,
)

# what text from a new "Question:" on counts for, in a response
IGNORED, NO_ANSWER = "ignored", "no_answer"


class TaskFacts(Settings):
    """What every task has, and what its settings say about it."""

    name: Text
    max_prompt_tokens: Count

    @property
    def has_answers(self) -> bool:
        """Whether prompts come with an answer, which responses are compared with."""
        return False

    @property
    def answers_from(self) -> str:
        """The setting by which prompts get answers where they have none; empty: there is none."""
        return ""

    @property
    def counts_whole_contexts(self) -> bool:
        """Whether `max_prompt_tokens` counts BOS and the chat template, too."""
        return False


class ImdbConfig(TaskFacts):
    """Settings of `task=imdb`: continue the first words of a movie review."""

    source: Literal["package", "hub", "path"]
    path: Text  # hub: data set name; path: a .jsonl, .json, .csv or .parquet file
    text_column: Text  # hub, path: the column that holds the review
    train_split: Text  # path: a slice, as train[:90%]
    test_split: Text
    min_characters: Number  # shorter reviews are left out
    min_prompt_tokens: Count  # a prompt is the first n tokens of a review, n drawn anew each time
    observer_template: Annotated[Text, with_fields("answers", "query")]
    answer_template: Annotated[Text, with_fields("response", allowed=["query"])]
    answer_separator: Text  # between two answers, with three or more agents

    def conflicts(self) -> Iterator[Conflict]:
        if self.max_prompt_tokens < self.min_prompt_tokens:
            least = self.min_prompt_tokens
            yield "max_prompt_tokens", f"must not be below task.min_prompt_tokens={least}"


class PickConfig(TaskFacts):
    """How many of a task's problems a run is trained and tested on; part of the tasks below.

    What is picked is a function of `pick_seed` alone: runs of all seeds learn from, and are
    measured on, the same problems. Picked training and test problems share no question, even where
    both come from one split.
    """

    pick_train: Count | None  # training problems; None: all, but those picked for the test
    pick_test: Count | None  # test problems; None: all
    pick_seed: Number

    @property
    def has_answers(self) -> bool:
        return True

    def picks(self) -> bool:
        """Whether a run takes only some of the problems."""
        return self.pick_train is not None or self.pick_test is not None


def _python_name(text: str) -> str:
    if not text.isidentifier():
        raise ValueError("must be a Python name")
    return text


class ProgramsConfig(Settings):
    """Training questions that come with programs, which are run to learn the answers."""

    path: Text  # hub: data set name; path: a folder with a file per split, or one file
    question_column: Text
    code_column: Text  # Python that defines `function`
    function: Annotated[Text, AfterValidator(_python_name)]  # returns the answer
    answers: Literal["integers", "numbers"]  # which questions are kept
    seconds: Count  # of processor time that a program may use
    memory: Annotated[int, Field(ge=64)]  # MiB that it may use, the interpreter's own 20 included
    cache: Text  # folder that keeps what programs returned


def _question_once(text: str) -> str:
    if text.count("{question}") != 1:
        raise ValueError("must contain {question} once")
    return text


class QuestionsConfig(PickConfig):
    """Settings of `task=gsm8k`, `arithmetic`, `tinygsm`: questions whose answer is a number."""

    source: Literal["hub", "path", "generated"]
    path: Text | None  # hub: data set name; path: a folder with a file per split, or one file
    subset: Text | None  # hub: which of the forms that the data set has
    question_column: Text
    answer_column: Text  # its text is a number, or ends in "#### <number>"
    train_split: Text  # path to one file: a slice, as train[:90%]
    test_split: Text
    kinds: list[Text] | None  # generated: of cory/tasks/problems.py, drawn evenly
    train_problems: Count | None  # generated: how many
    test_problems: Count | None
    programs: ProgramsConfig | None  # where training questions come from whose answers are computed
    next_question: Literal["ignored", "read", "no_answer"]  # what a response goes on with
    example: Text  # a worked example, before every question
    prompt_template: Annotated[
        Text, with_fields("question", allowed=["example"]), AfterValidator(_question_once)
    ]
    observer_template: Annotated[Text, with_fields("question", "answers", allowed=["example"])]
    answer_template: Annotated[Text, with_fields("response")]
    answer_separator: Text  # between two answers, with three or more agents

    needs = {
        "source=hub|path": "path",
        "source=generated": "kinds train_problems test_problems",
        "programs": "source=hub|path",
    }


class MessageConfig(PickConfig):
    """Settings of a task that puts rows of a data set to a chat model, each in one message."""

    source: Literal["hub", "path"]
    path: Text  # hub: data set name; path: a folder with a file per split, or one file
    train_split: Text  # path to one file: a slice of train
    test_split: Text
    prompt_template: Text  # its fields are each task's own
    observer_template: Annotated[Text, with_fields("query", "answers")]
    answer_template: Annotated[Text, with_fields("response")]
    answer_separator: Text  # between two answers, with three or more agents

    def with_answers(self, query: str, answers: Sequence[str]) -> str:
        """The prompt of an agent that answers after others."""
        quoted = self.answer_separator.join(
            self.answer_template.format(response=answer.strip()) for answer in answers
        )
        return self.observer_template.format(query=query, answers=quoted)


class AnliConfig(MessageConfig):
    """Settings of `task=anli`: does {hypothesis} follow from {premise}?"""

    prompt_template: Annotated[Text, with_fields("premise", "hypothesis")]
    premise_column: Text
    hypothesis_column: Text
    label_column: Text  # 0 or entailment, 1 or neutral, 2 or contradiction


class MathConfig(MessageConfig):
    """Settings of `task=math`: competition mathematics, {question}s whose answers are formulas."""

    prompt_template: Annotated[Text, with_fields("question")]
    subjects: list[Text] | None  # hub: of cory/tasks/mathematics.py; None: all
    problem_column: Text
    solution_column: Text  # its last \\boxed{...} is the answer
    level_column: Text  # 1 to 5, or a text as "Level 3"
    levels: Annotated[list[Literal[1, 2, 3, 4, 5]], Field(min_length=1)] | None  # None: all
    seconds: Count  # of processor time in which two answers must be found equal

    needs = {"subjects": "source=hub"}  # whose data set has a part for each


class MmluConfig(MessageConfig):
    """Settings of `task=mmlu`: {question}s about 57 subjects, with four {options} each."""

    prompt_template: Annotated[Text, with_fields("question", "options")]
    subset: Text | None  # hub: `all`, or one subject
    question_column: Text
    choices_column: Text  # four texts
    answer_column: Text  # 0 to 3, or A to D


class PromptsConfig(PickConfig):
    """Settings of `task=prompts`: prompts of one's own, from a file, a folder or the hub."""

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

    needs = {
        "test_split=null": "held_out_share",  # there would be nothing to evaluate on
        "held_out_share": "test_split=null",  # both name the test prompts
    }

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

    def with_answers(self, query: str, answers: Sequence[str]) -> str:
        """The prompt of an agent that answers after others.

        Answers keep the space before them, so that `{query}{response}` is the completed text.
        """
        quoted = self.answer_separator.join(
            self.answer_template.format(query=query, response=answer.rstrip()) for answer in answers
        )
        return self.observer_template.format(query=query, answers=quoted)
