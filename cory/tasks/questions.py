"""Questions with one number as their answer: GSM8K and files of its form, programs, or made up."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from cory.config import ConfigError, QuestionsConfig, require
from cory.episode import Prompt
from cory.tasks.answers.answers import final_number, is_number, is_right
from cory.tasks.data.prompt_set import PromptSet, PromptSetTask
from cory.tasks.data.subset import pick_subset
from cory.tasks.data.tables import column, hub_table, local_table, rows_of_split
from cory.tasks.problems import KINDS, draw_distinct
from cory.tasks.sandbox.programs import answered_questions

MARK = "####"  # stands before the answer, after the worked solution
# no run's seed reaches the generated questions: all runs learn from, and are measured on, the same
GENERATED = {"train": 20_241_002, "test": 20_241_003}


class QuestionsForm:
    """A worked example, where there is one, then the question (Ma et al., App. A.2)."""

    def __init__(self, config: QuestionsConfig) -> None:
        self.config = config
        # an observer's prompt is made from the query: its question lies between these two
        self.before, self.after = config.prompt_template.format(
            example=config.example, question="\0"
        ).split("\0")

    def prompt_of(self, text: str) -> Prompt:
        """A question from elsewhere, asked as the task's own are; its answer is not known."""
        return Prompt(id="probe", text=f"{self.before}{text.strip()}{self.after}")

    def read(self, response: str) -> Fraction | None:
        """The exact value of the response's last or marked number."""
        return final_number(response)

    def is_right(self, response: str, answer: str) -> bool:
        """Whether that number has the answer's value."""
        return is_right(response, answer)

    def observer_context(self, query: str, answers: Sequence[str]) -> str:
        """The same question, with the answers given before as reference."""
        config = self.config
        quoted = config.answer_separator.join(
            config.answer_template.format(response=answer.strip()) for answer in answers
        )
        question = query.removeprefix(self.before).removesuffix(self.after)
        return config.observer_template.format(
            example=config.example, question=question, answers=quoted
        )


class QuestionsTask(QuestionsForm, PromptSetTask):
    """Questions asked so, of a data set or made up."""

    def __init__(
        self, config: QuestionsConfig, tokenizer: Any, stream: np.random.Generator
    ) -> None:
        super().__init__(config)
        train, test = pick_subset(config, self._prompts("train"), self._prompts("test"))
        self.prompt_set = PromptSet(train, test, tokenizer, config.max_prompt_tokens, stream)

    def _prompts(self, part: str) -> list[Prompt]:
        if self.config.source == "generated":
            return self._generated(part)
        config = self.config
        if config.programs is not None and part == "train":
            rows = answered_questions(config.programs, config.source, config.train_split)
            return [self._prompt(f"train-{row}", *pair) for row, *pair in rows]
        assert config.path is not None  # QuestionsConfig
        split = config.train_split if part == "train" else config.test_split
        if config.source == "hub":
            offline = "task.source=path with a local file or folder"
            table = hub_table(config.path, config.subset, split, offline)
        else:
            names = (config.question_column, config.answer_column)
            table = local_table(config.path, split, names, sliced=not config.picks())
        questions = column(table, "task.question_column", config.question_column)
        solutions = column(table, "task.answer_column", config.answer_column)
        return [
            self._prompt(f"{part}-{row}", question, solution)
            for row, (question, solution) in enumerate(zip(questions, solutions, strict=True))
        ]

    def _generated(self, part: str) -> list[Prompt]:
        config = self.config
        assert config.kinds is not None
        for kind in config.kinds:
            require(
                kind in KINDS,
                f"task.kinds: {kind} is not one of {', '.join(KINDS)}",
            )
        count = config.train_problems if part == "train" else config.test_problems
        assert count is not None
        try:
            problems = draw_distinct(
                np.random.default_rng(GENERATED[part]), config.kinds, part, count
            )
        except ValueError as error:
            raise ConfigError(f"task.{part}_problems={count}: {error}") from None
        split = config.train_split if part == "train" else config.test_split
        return [
            self._prompt(f"{part}-{row}", problems[row].question, problems[row].answer)
            for row in rows_of_split(split, part, count)
        ]

    def _prompt(self, name: str, question: object, solution: object) -> Prompt:
        config = self.config
        for key, text in ((config.question_column, question), (config.answer_column, solution)):
            if not isinstance(text, str) or not text.strip():
                raise ConfigError(f"task.path={config.path}: row {name} has no text in '{key}'")
        answer = str(solution).rpartition(MARK)[2].strip()
        require(
            is_number(answer),
            f"task.path={config.path}: row {name} must end in a number, alone or after {MARK}; "
            f"got '{answer[-40:]}'",
        )
        text = f"{self.before}{str(question).strip()}{self.after}"
        return Prompt(id=f"{config.name}-{name}", text=text, answer=answer)
