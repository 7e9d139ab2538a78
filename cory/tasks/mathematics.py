"""MATH: competition mathematics, whose answers are formulas in a box (Hendrycks et al., 2021)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from cory.config import ConfigError, MathConfig, require
from cory.episode import Prompt
from cory.tasks.answers.formulas import last_box, plain_formula
from cory.tasks.data.prompt_set import PromptSet, PromptSetTask
from cory.tasks.data.subset import pick_subset, refuse_shared
from cory.tasks.data.tables import column, hub_table, local_table
from cory.tasks.sandbox.equality import Answer, equality

SUBJECTS = (
    *("algebra", "counting_and_probability", "geometry", "intermediate_algebra"),
    *("number_theory", "prealgebra", "precalculus"),
)
LEVEL = re.compile(r"(?:Level )?([1-5?])")  # of some problems the level is not known: Level ?


class MathForm:
    """A problem; the answer is a formula, right when it equals the one of the worked solution."""

    def __init__(self, config: MathConfig) -> None:
        self.config = config
        self.equality = equality(config.seconds)

    def prompt_of(self, text: str) -> Prompt:
        """A problem from elsewhere, asked as the task's own are; its answer is not known."""
        return Prompt(id="probe", text=self.config.prompt_template.format(question=text.strip()))

    def observer_context(self, query: str, answers: Sequence[str]) -> str:
        """The same message, with the answers given before."""
        return self.config.with_answers(query, answers)

    def read(self, response: str) -> Answer | None:
        """What the response's last box holds; dots alone are what the prompt shows."""
        inside = last_box(response)
        return Answer(inside, self.equality) if inside and plain_formula(inside) else None

    def is_right(self, response: str, answer: str) -> bool:
        """Whether that equals the answer, which is a box, too."""
        given = self.read(response)
        return given is not None and given == self.read(answer)


class MathTask(MathForm, PromptSetTask):
    """Problems of the data set."""

    def __init__(self, config: MathConfig, tokenizer: Any, stream: np.random.Generator) -> None:
        super().__init__(config)
        train, test = pick_subset(config, self._prompts("train"), self._prompts("test"))
        refuse_shared(train, test)
        self.prompt_set = PromptSet(train, test, tokenizer, config.max_prompt_tokens, stream)

    def _prompts(self, part: str) -> list[Prompt]:
        config = self.config
        keys = {
            "task.problem_column": config.problem_column,
            "task.solution_column": config.solution_column,
            "task.level_column": config.level_column,
        }
        columns: list[list[Any]] = [[], [], []]
        for table in self._tables(part, list(keys.values())):
            for values, (key, name) in zip(columns, keys.items(), strict=True):
                values += column(table, key, name)
        rows = enumerate(zip(*columns, strict=True))
        prompts = [
            self._prompt(f"{part}-{row}", problem, solution)
            for row, (problem, solution, level) in rows
            if config.levels is None or self._level(f"{part}-{row}", level) in config.levels
        ]
        require(bool(prompts), f"task.levels={config.levels}: no {part} problem is of such a level")
        return prompts

    def _tables(self, part: str, needed: Sequence[str]) -> list[Any]:
        config = self.config
        split = config.train_split if part == "train" else config.test_split
        if config.source == "path":
            return [local_table(config.path, split, needed, sliced=not config.picks())]
        offline = "task.source=path with a local file or folder"
        subjects = SUBJECTS if config.subjects is None else config.subjects
        for subject in subjects:
            require(
                subject in SUBJECTS,
                f"task.subjects: {subject} is not one of {', '.join(SUBJECTS)}",
            )
        return [hub_table(config.path, subject, split, offline) for subject in subjects]

    def _level(self, name: str, level: object) -> int | None:
        found = LEVEL.fullmatch(str(level))
        if found is None:
            raise ConfigError(
                f"task.path={self.config.path}: row {name}: '{self.config.level_column}' must be "
                f"1 to 5, alone or as 'Level 3', got {level}"
            )
        return None if found[1] == "?" else int(found[1])

    def _prompt(self, name: str, problem: object, solution: object) -> Prompt:
        config = self.config
        where = f"task.path={config.path}: row {name}"
        texts = {config.problem_column: problem, config.solution_column: solution}
        for key, text in texts.items():
            if not isinstance(text, str) or not text.strip():
                raise ConfigError(f"{where} has no text in '{key}'")
        answer = self.read(str(solution))
        if answer is None:
            raise ConfigError(
                f"{where}: '{config.solution_column}' must hold its answer in a closed "
                f"\\boxed{{...}}; it ends in '{str(solution).strip()[-40:]}'"
            )
        text = config.prompt_template.format(question=str(problem).strip())
        return Prompt(id=f"{config.name}-{name}", text=text, answer=f"\\boxed{{{answer}}}")
