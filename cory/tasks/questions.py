"""Questions whose answer is one number: GSM8K, files of its form, TinyGSM, or generated."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from cory.config import ConfigError, QuestionsConfig, require
from cory.episode import Prompt
from cory.tasks.answers.answers import final_number, is_number
from cory.tasks.data.prompt_set import PromptSet
from cory.tasks.data.tables import part_rows, row_texts, rows_of_split
from cory.tasks.forms import AnswerForm
from cory.tasks.problems import KINDS, draw_distinct
from cory.tasks.sandbox.programs import answered_questions

MARK = "####"  # stands before the answer, after the worked solution
# generated questions do not depend on a run's seed: all runs are trained and tested on the same
GENERATED_SEEDS = {"train": 20_241_002, "test": 20_241_003}


class QuestionsForm(AnswerForm):
    """Asks a question, after a worked example if the settings have one (Ma et al., App. A.2)."""

    config: QuestionsConfig

    def __init__(self, config: QuestionsConfig) -> None:
        super().__init__(config, partial(final_number, next_question=config.next_question))
        # texts around the question in a prompt; an observer's prompt repeats the question alone
        self.before, self.after = config.prompt_template.format(
            example=config.example, question="\0"
        ).split("\0")

    def prompt_of(self, text: str) -> Prompt:
        """The question `text` as a prompt without an answer."""
        return Prompt(id="probe", text=f"{self.before}{text.strip()}{self.after}")

    def observer_context(self, query: str, answers: Sequence[str]) -> str:
        """The question of `query` with the answers of other agents as reference."""
        config = self.config
        quoted = config.answer_separator.join(
            config.answer_template.format(response=answer.strip()) for answer in answers
        )
        question = query.removeprefix(self.before).removesuffix(self.after)
        return config.observer_template.format(
            example=config.example, question=question, answers=quoted
        )


class QuestionsTask(QuestionsForm, PromptSet):
    """Questions of a data set, or generated."""

    form = QuestionsForm

    def __init__(
        self, config: QuestionsConfig, tokenizer: Any, stream: np.random.Generator
    ) -> None:
        QuestionsForm.__init__(self, config)
        PromptSet.__init__(self, config, self._prompts, tokenizer, stream)

    def _prompts(self, part: str) -> list[Prompt]:
        config = self.config
        if config.source == "generated":
            return self._generated(part)
        if config.programs is not None and part == "train":
            rows = answered_questions(config.programs, config.source, config.train_split)
            return [self._prompt(f"train-{row}", *pair) for row, *pair in rows]
        columns = ("question_column", "answer_column")
        pairs = enumerate(part_rows(config, part, columns, config.subset))
        return [self._prompt(f"{part}-{row}", *pair) for row, pair in pairs]

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
            stream = np.random.default_rng(GENERATED_SEEDS[part])
            problems = draw_distinct(stream, config.kinds, part, count)
        except ValueError as error:
            raise ConfigError(f"task.{part}_problems={count}: {error}") from None
        split = config.train_split if part == "train" else config.test_split
        rows = rows_of_split(split, part, count, f"task.{part}_split")
        require(bool(rows), f"task.{part}_split={split} has none of the {count} problems")
        return [
            self._prompt(f"{part}-{row}", problems[row].question, problems[row].answer)
            for row in rows
        ]

    def _prompt(self, name: str, question: object, solution: object) -> Prompt:
        config = self.config
        where = f"task.path={config.path}: row {name}"
        columns = (config.question_column, question), (config.answer_column, solution)
        asked, worked = row_texts(where, *columns)
        answer = worked.rpartition(MARK)[2].strip()
        require(
            is_number(answer),
            f"{where} must end in a number, alone or after {MARK}; got '{answer[-40:]}'",
        )
        text = f"{self.before}{asked.strip()}{self.after}"
        return Prompt(id=f"{config.name}-{name}", text=text, answer=answer)
