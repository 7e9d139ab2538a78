"""Questions with one number as their answer: GSM8K, other files of that form, or generated ones."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from cory import processes
from cory.config import ConfigError, QuestionsConfig, require
from cory.episode import Prompt
from cory.functional.answers import is_number
from cory.tasks.passes import Passes
from cory.tasks.problems import KINDS, draw_distinct
from cory.tasks.tables import column, hub_table, local_table

MARK = "####"  # stands before the answer, after the worked solution
# no run's seed reaches the generated questions: all runs learn from, and are measured on, the same
GENERATED = {"train": 20_241_002, "test": 20_241_003}


class QuestionsTask:
    """A worked example, where there is one, then the question (Ma et al., App. A.2)."""

    def __init__(
        self, config: QuestionsConfig, tokenizer: Any, stream: np.random.Generator
    ) -> None:
        self.config = config
        self.tokenizer = tokenizer
        # an observer's prompt is made from the query: its question lies between these two
        self.before, self.after = config.prompt_template.format(
            example=config.example, question="\0"
        ).split("\0")
        self.parts = {
            "train": self._short_enough(self._prompts("train")),
            "test": self._prompts("test"),
        }
        self.passes = Passes(len(self.parts["train"]), stream)
        self.state_dict = self.passes.state_dict
        self.load_state_dict = self.passes.load_state_dict

    def sample(self, count: int) -> list[Prompt]:
        """The next prompts: every question once per pass, passes shuffled anew."""
        train = self.parts["train"]
        return [train[self.passes.next()] for _ in range(count)]

    def held_out(self, count: int | None, split: str) -> list[Prompt]:
        """The first `count` questions of a split, or all; a benchmark's rows are never left out."""
        prompts = self.parts[split]
        require(
            count is None or count <= len(prompts),
            f"evaluation.prompts ({count}) exceeds the {len(prompts)} {split} questions",
        )
        prompts = prompts[:count]
        for prompt, tokens in zip(prompts, self._tokens(prompts), strict=True):
            require(
                tokens <= self.config.max_prompt_tokens,
                f"task.max_prompt_tokens ({self.config.max_prompt_tokens}) is below the {tokens} "
                f"tokens of {split} prompt {prompt.id}",
            )
        return prompts

    def prompt_of(self, text: str) -> Prompt:
        """A question from elsewhere, asked as the task's own are; its answer is not known."""
        return Prompt(id="probe", text=f"{self.before}{text.strip()}{self.after}")

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

    def _prompts(self, part: str) -> list[Prompt]:
        if self.config.source == "generated":
            return self._generated(part)
        config = self.config
        assert config.path is not None  # QuestionsConfig
        split = config.train_split if part == "train" else config.test_split
        if config.source == "hub":
            offline = "task.source=path with a local file or folder"
            table = hub_table(config.path, config.subset, split, offline)
        else:
            table = local_table(config.path, split, (config.question_column, config.answer_column))
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
        return [
            self._prompt(f"{part}-{row}", problem.question, problem.answer)
            for row, problem in enumerate(problems)
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

    def _short_enough(self, prompts: list[Prompt]) -> list[Prompt]:
        longest = self.config.max_prompt_tokens
        lengths = self._tokens(prompts)
        kept = [p for p, tokens in zip(prompts, lengths, strict=True) if tokens <= longest]
        require(
            bool(kept),
            f"task.max_prompt_tokens={longest}: all {len(prompts)} training prompts are longer",
        )
        if len(kept) < len(prompts) and processes.rank() == 0:
            print(
                f"note: task.max_prompt_tokens={longest} leaves out {len(prompts) - len(kept)} of "
                f"{len(prompts)} training prompts",
                file=sys.stderr,
            )
        return kept

    def _tokens(self, prompts: list[Prompt]) -> list[int]:
        texts = [prompt.text for prompt in prompts]
        return [len(ids) for ids in self.tokenizer(texts, add_special_tokens=False)["input_ids"]]
