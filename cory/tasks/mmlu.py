"""MMLU: questions about 57 subjects, with four options each (Hendrycks et al., 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cory.config import ConfigError, MmluConfig, require
from cory.episode import Prompt
from cory.tasks.answers.choices import CHOICES, final_choice
from cory.tasks.data.prompt_set import PromptSet, PromptSetTask
from cory.tasks.data.subset import pick_subset, refuse_shared
from cory.tasks.data.tables import column, hub_table, local_table

# as the hub's data set numbers them, or by name
CHOICE_OF: dict[object, str] = {
    **dict(enumerate(CHOICES)),
    **{letter: letter for letter in CHOICES},
}


class MmluForm:
    """A question and its options; the answer is the letter of one."""

    def __init__(self, config: MmluConfig) -> None:
        self.config = config

    def prompt_of(self, text: str) -> Prompt:
        """A question from elsewhere, its options on its last four lines; its answer is unknown."""
        lines = text.strip().split("\n")
        require(
            len(lines) > len(CHOICES),
            f"task=mmlu: a probe is a question and four lines with its options; got '{text[:40]}'",
        )
        options = lines[-len(CHOICES) :]
        return Prompt(id="probe", text=self._text("\n".join(lines[: -len(CHOICES)]), options))

    def observer_context(self, query: str, answers: Sequence[str]) -> str:
        """The same message, with the answers given before."""
        return self.config.with_answers(query, answers)

    def read(self, response: str) -> str | None:
        """The letter that the response chooses."""
        return final_choice(response)

    def is_right(self, response: str, answer: str) -> bool:
        """Whether that is the right one."""
        return final_choice(response) == answer

    def _text(self, question: str, options: Sequence[str]) -> str:
        lines = [
            f"({letter}) {text.strip()}" for letter, text in zip(CHOICES, options, strict=True)
        ]
        return self.config.prompt_template.format(
            question=question.strip(), options="\n".join(lines)
        )


class MmluTask(MmluForm, PromptSetTask):
    """Questions of the data set."""

    def __init__(self, config: MmluConfig, tokenizer: Any, stream: np.random.Generator) -> None:
        super().__init__(config)
        train, test = pick_subset(config, self._prompts("train"), self._prompts("test"))
        refuse_shared(train, test)
        self.prompt_set = PromptSet(train, test, tokenizer, config.max_prompt_tokens, stream)

    def _prompts(self, part: str) -> list[Prompt]:
        config = self.config
        split = config.train_split if part == "train" else config.test_split
        names = (config.question_column, config.choices_column, config.answer_column)
        if config.source == "hub":
            offline = "task.source=path with a local file or folder"
            table = hub_table(config.path, config.subset, split, offline)
        else:
            table = local_table(config.path, split, names, sliced=not config.picks())
        keys = ("task.question_column", "task.choices_column", "task.answer_column")
        columns = [column(table, key, name) for key, name in zip(keys, names, strict=True)]
        rows = enumerate(zip(*columns, strict=True))
        return [self._prompt(f"{part}-{row}", *values) for row, values in rows]

    def _prompt(self, name: str, question: object, options: object, answer: object) -> Prompt:
        config = self.config
        where = f"task.path={config.path}: row {name}"
        if not isinstance(question, str) or not question.strip():
            raise ConfigError(f"{where} has no text in '{config.question_column}'")
        if (
            not isinstance(options, list)
            or len(options) != len(CHOICES)
            or not all(isinstance(option, str) and option.strip() for option in options)
        ):
            raise ConfigError(f"{where}: '{config.choices_column}' must be a list of four texts")
        if not isinstance(answer, int | str) or answer not in CHOICE_OF:
            raise ConfigError(
                f"{where}: '{config.answer_column}' must be 0 to 3 or A to D, got {answer}"
            )
        text = self._text(question, options)
        return Prompt(id=f"{config.name}-{name}", text=text, answer=CHOICE_OF[answer])
