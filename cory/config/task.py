"""Settings of `task=`."""

from collections.abc import Sequence
from dataclasses import dataclass

from cory.config.checks import require, require_at_least, require_choice, require_fields

# what text from a new "Question:" on counts for, in a response
IGNORED, READ, NO_ANSWER = "ignored", "read", "no_answer"


class TaskFacts:
    """What the settings of a task say about it, unless a subclass says otherwise."""

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


@dataclass
class ImdbConfig(TaskFacts):
    """Settings of `task=imdb`: continue the first words of a movie review."""

    name: str
    source: str  # package (offline) | hub | path
    path: str  # hub: data set name; path: a .jsonl, .json, .csv or .parquet file
    text_column: str  # hub, path: the column that holds the review
    train_split: str  # split for training prompts; path: a slice, as train[:90%]
    test_split: str  # split for evaluation prompts; path: a slice, as train[90%:]
    min_characters: int  # shorter reviews are left out
    min_prompt_tokens: int  # a prompt is the first n tokens of a review, n drawn anew each time
    max_prompt_tokens: int
    observer_template: str  # {answers}: what was said before; {query}: the prompt
    answer_template: str  # one answer inside {answers}: {query} and {response}
    answer_separator: str  # between two answers, with three or more agents

    def __post_init__(self) -> None:
        require_choice("task.source", self.source, ("package", "hub", "path"))
        require_at_least("task.min_characters", self.min_characters, 0)
        require_at_least("task.min_prompt_tokens", self.min_prompt_tokens, 1)
        require(
            self.max_prompt_tokens >= self.min_prompt_tokens,
            f"task.max_prompt_tokens ({self.max_prompt_tokens}) must not be below "
            f"task.min_prompt_tokens ({self.min_prompt_tokens})",
        )
        require_fields("task.observer_template", self.observer_template, ("answers", "query"))
        require_fields("task.answer_template", self.answer_template, ("response",), ("query",))


@dataclass
class PickConfig(TaskFacts):
    """How many of a task's problems a run is trained and tested on; part of the tasks below.

    What is picked is a function of `pick_seed` alone: runs of all seeds learn from, and are
    measured on, the same problems. Picked training and test problems share no question, even where
    both come from one split.
    """

    pick_train: int | None  # training problems; None: all, but those that are picked for the test
    pick_test: int | None  # test problems; None: all
    pick_seed: int
    contradictions: str  # refused | allowed: one question with answers that differ

    @property
    def has_answers(self) -> bool:
        return True

    def check_picks(self) -> None:
        for key in ("pick_train", "pick_test"):
            value = getattr(self, key)
            if value is not None:
                require_at_least(f"task.{key}", value, 1)
        require_at_least("task.pick_seed", self.pick_seed, 0)
        require_choice("task.contradictions", self.contradictions, ("refused", "allowed"))

    def picks(self) -> bool:
        """Whether a run takes only some of the problems."""
        return self.pick_train is not None or self.pick_test is not None


@dataclass
class ProgramsConfig:
    """Training questions that come with programs, which are run to learn the answers."""

    path: str  # hub: data set name; path: a folder with a file per split, or one file
    question_column: str
    code_column: str  # Python that defines `function`
    function: str  # called without arguments; what it returns is the answer
    answers: str  # integers | numbers: which questions are kept
    seconds: int  # of processor time that a program may use
    memory: int  # MiB that it may use, the interpreter's own 20 included
    cache: str  # folder that keeps what programs returned

    def __post_init__(self) -> None:
        key = "task.programs"
        require(
            self.function.isidentifier(),
            f"{key}.function must be a Python name, got '{self.function}'",
        )
        require_choice(f"{key}.answers", self.answers, ("integers", "numbers"))
        require_at_least(f"{key}.seconds", self.seconds, 1)
        require_at_least(f"{key}.memory", self.memory, 64)


@dataclass
class QuestionsConfig(PickConfig):
    """Settings of `task=gsm8k`, `arithmetic`, `tinygsm`: questions whose answer is a number."""

    name: str
    source: str  # hub | path | generated
    path: str | None  # hub: data set name; path: a folder with a file per split, or one file
    subset: str | None  # hub: which of the forms that the data set has
    question_column: str
    answer_column: str  # its text is a number, or ends in "#### <number>"
    train_split: str  # split for training prompts; path to one file: a slice, as train[:90%]
    test_split: str  # split for evaluation prompts; path to one file: a slice, as train[90%:]
    kinds: list[str] | None  # generated: of cory/tasks/problems.py, drawn evenly
    train_problems: int | None  # generated: how many
    test_problems: int | None
    programs: ProgramsConfig | None  # where training questions come from whose answers are computed
    next_question: str  # ignored | read | no_answer: what a response goes on with
    max_prompt_tokens: int  # longer training prompts are left out, longer test prompts refused
    example: str  # a worked example, before every question
    prompt_template: str  # {example} and {question}
    observer_template: str  # besides, {answers}: what was said before
    answer_template: str  # one answer inside {answers}: {response}
    answer_separator: str  # between two answers, with three or more agents

    def __post_init__(self) -> None:
        self.check_picks()
        require_choice("task.source", self.source, ("hub", "path", "generated"))
        require_choice("task.next_question", self.next_question, (IGNORED, READ, NO_ANSWER))
        if self.source == "generated":
            require(bool(self.kinds), "task.source=generated needs task.kinds")
            for key in ("train_problems", "test_problems"):
                value = getattr(self, key)
                require(value is not None, f"task.source=generated needs task.{key}")
                require_at_least(f"task.{key}", value, 1)
            require(
                self.programs is None,
                "task.programs needs task.source=hub or path; task.source=generated asks questions "
                "of its own",
            )
        else:
            require(self.path is not None, f"task.source={self.source} needs task.path")
        require_at_least("task.max_prompt_tokens", self.max_prompt_tokens, 1)
        require_fields("task.prompt_template", self.prompt_template, ("question",), ("example",))
        fields = ("question", "answers")
        require_fields("task.observer_template", self.observer_template, fields, ("example",))
        require_fields("task.answer_template", self.answer_template, ("response",))
        require(
            self.prompt_template.count("{question}") == 1,
            f"task.prompt_template must contain {{question}} once, got '{self.prompt_template}'",
        )


@dataclass
class MessageConfig(PickConfig):
    """Settings of a task that puts rows of a data set to a chat model, each in one message."""

    name: str
    source: str  # hub | path
    path: str  # hub: data set name; path: a folder with a file per split, or one file
    train_split: str  # split for training prompts, or a slice; path to one file: a slice of train
    test_split: str  # split for evaluation prompts
    max_prompt_tokens: int  # longer training prompts are left out, longer test prompts refused
    prompt_template: str  # its fields are each task's own
    observer_template: str  # {query}: the prompt; {answers}: what was said before
    answer_template: str  # one answer inside {answers}: {response}
    answer_separator: str  # between two answers, with three or more agents

    def check_message(self, *fields: str) -> None:
        """fields: the {fields} that `prompt_template` must have"""
        self.check_picks()
        require_choice("task.source", self.source, ("hub", "path"))
        require_at_least("task.max_prompt_tokens", self.max_prompt_tokens, 1)
        require_fields("task.prompt_template", self.prompt_template, fields)
        require_fields("task.observer_template", self.observer_template, ("query", "answers"))
        require_fields("task.answer_template", self.answer_template, ("response",))

    def with_answers(self, query: str, answers: Sequence[str]) -> str:
        """The prompt of an agent that answers after others."""
        quoted = self.answer_separator.join(
            self.answer_template.format(response=answer.strip()) for answer in answers
        )
        return self.observer_template.format(query=query, answers=quoted)


@dataclass
class AnliConfig(MessageConfig):
    """Settings of `task=anli`: does {hypothesis} follow from {premise}?"""

    premise_column: str
    hypothesis_column: str
    label_column: str  # 0 or entailment, 1 or neutral, 2 or contradiction

    def __post_init__(self) -> None:
        self.check_message("premise", "hypothesis")


@dataclass
class MathConfig(MessageConfig):
    """Settings of `task=math`: competition mathematics, {question}s whose answers are formulas."""

    subjects: list[str] | None  # hub: of cory/tasks/mathematics.py; None: all
    problem_column: str
    solution_column: str  # its last \boxed{...} is the answer
    level_column: str  # 1 to 5, or a text as "Level 3"
    levels: list[int] | None  # which problems are kept; None: all
    seconds: int  # of processor time in which two answers must be found equal

    def __post_init__(self) -> None:
        self.check_message("question")
        require(
            self.source == "hub" or self.subjects is None,
            f"task.subjects needs task.source=hub, whose data set has a part for each; got "
            f"task.source={self.source}",
        )
        require(
            self.levels is None or (bool(self.levels) and set(self.levels) <= {1, 2, 3, 4, 5}),
            f"task.levels must be null or some of 1 to 5, got {self.levels}",
        )
        require_at_least("task.seconds", self.seconds, 1)


@dataclass
class MmluConfig(MessageConfig):
    """Settings of `task=mmlu`: {question}s about 57 subjects, with four {options} each."""

    subset: str | None  # hub: `all`, or one subject
    question_column: str
    choices_column: str  # four texts
    answer_column: str  # 0 to 3, or A to D

    def __post_init__(self) -> None:
        self.check_message("question", "options")
