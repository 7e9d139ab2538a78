"""MATH: competition mathematics, whose answers are formulas in a box (Hendrycks et al., 2021)."""

import re
from typing import Any

import numpy as np

from cory.config import ConfigError, MathConfig, require
from cory.episode import Prompt
from cory.tasks.answer_kinds import answer_kind
from cory.tasks.data.prompt_set import PromptSet
from cory.tasks.data.tables import part_rows, row_texts
from cory.tasks.forms import AnswerForm

SUBJECTS = (
    *("algebra", "counting_and_probability", "geometry", "intermediate_algebra"),
    *("number_theory", "prealgebra", "precalculus"),
)
LEVEL = re.compile(r"(?:Level )?([1-5?])")  # `Level ?` where the level is not known


class MathForm(AnswerForm):
    """Asks a problem whose answer is a formula in a box; a formula that is equal is right."""

    config: MathConfig

    def __init__(self, config: MathConfig) -> None:
        super().__init__(config, answer_kind("formula", config.seconds).read)

    def prompt_of(self, text: str) -> Prompt:
        """The problem `text` as a prompt without an answer."""
        return Prompt(id="probe", text=self.config.prompt_template.format(question=text.strip()))


class MathTask(MathForm, PromptSet):
    """Problems of the data set."""

    form = MathForm

    def __init__(self, config: MathConfig, tokenizer: Any, stream: np.random.Generator) -> None:
        MathForm.__init__(self, config)
        PromptSet.__init__(self, config, self._prompts, tokenizer, stream)

    def _prompts(self, part: str) -> list[Prompt]:
        config = self.config
        columns = ("problem_column", "solution_column", "level_column")
        rows: list[tuple[Any, ...]] = []
        # of local files there is one part, without a name
        subjects = (None,) if config.source == "path" else config.subjects or SUBJECTS
        for subject in subjects:
            require(
                subject is None or subject in SUBJECTS,
                f"task.subjects: {subject} is not one of {', '.join(SUBJECTS)}",
            )
            rows += part_rows(config, part, columns, subject)
        prompts = [
            self._prompt(f"{part}-{row}", problem, solution)
            for row, (problem, solution, level) in enumerate(rows)
            if config.levels is None or self._level(f"{part}-{row}", level) in config.levels
        ]
        require(bool(prompts), f"task.levels={config.levels}: no {part} problem is of such a level")
        return prompts

    def _level(self, name: str, level: object) -> int | None:
        match = LEVEL.fullmatch(str(level))
        if match is None:
            raise ConfigError(
                f"task.path={self.config.path}: row {name}: '{self.config.level_column}' must be "
                f"1 to 5, alone or as 'Level 3', got {level}"
            )
        return None if match[1] == "?" else int(match[1])

    def _prompt(self, name: str, problem: object, solution: object) -> Prompt:
        config = self.config
        where = f"task.path={config.path}: row {name}"
        columns = (config.problem_column, problem), (config.solution_column, solution)
        question, worked = row_texts(where, *columns)
        answer = self.read(worked)
        if answer is None:
            raise ConfigError(
                f"{where}: '{config.solution_column}' must hold its answer in a closed "
                f"\\boxed{{...}}; it ends in '{worked.strip()[-40:]}'"
            )
        text = config.prompt_template.format(question=question.strip())
        return Prompt(id=f"{config.name}-{name}", text=text, answer=f"\\boxed{{{answer}}}")
