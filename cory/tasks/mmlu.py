"""MMLU: questions about 57 subjects, with four options each (Hendrycks et al., 2021)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cory.config import ConfigError, MmluConfig, require
from cory.episode import Prompt
from cory.tasks.answers.choices import CHOICES, final_choice
from cory.tasks.data.prompt_set import PromptSet
from cory.tasks.data.tables import part_rows, row_texts

# values of the answer column: the numbers of the hub's data set, or letters
CHOICE_OF: dict[object, str] = {**dict(enumerate(CHOICES)), **{name: name for name in CHOICES}}


class MmluForm:
    """Asks a question with four options; the answer is the letter of one."""

    def __init__(self, config: MmluConfig) -> None:
        self.config = config

    def prompt_of(self, text: str) -> Prompt:
        """A prompt without an answer; the last four lines of `text` are the options."""
        lines = text.strip().split("\n")
        require(
            len(lines) > len(CHOICES),
            f"task=mmlu: a probe is a question and four lines with its options; got '{text[:40]}'",
        )
        options = lines[-len(CHOICES) :]
        return Prompt(id="probe", text=self._text("\n".join(lines[: -len(CHOICES)]), options))

    def observer_context(self, query: str, answers: Sequence[str]) -> str:
        """The message `query` with the answers of other agents."""
        return self.config.with_answers(query, answers)

    def read(self, response: str) -> str | None:
        """The letter that the response chooses."""
        return final_choice(response)

    def is_right(self, response: str, answer: str) -> bool:
        """Whether the response chooses the letter `answer`."""
        return final_choice(response) == answer

    def _text(self, question: str, options: Sequence[str]) -> str:
        lines = [
            f"({letter}) {text.strip()}" for letter, text in zip(CHOICES, options, strict=True)
        ]
        return self.config.prompt_template.format(
            question=question.strip(), options="\n".join(lines)
        )


class MmluTask(MmluForm, PromptSet):
    """Questions of the data set."""

    form = MmluForm

    def __init__(self, config: MmluConfig, tokenizer: Any, stream: np.random.Generator) -> None:
        MmluForm.__init__(self, config)
        PromptSet.__init__(self, config, self._prompts, tokenizer, stream, disjoint=True)

    def _prompts(self, part: str) -> list[Prompt]:
        columns = {
            "task.question_column": self.config.question_column,
            "task.choices_column": self.config.choices_column,
            "task.answer_column": self.config.answer_column,
        }
        rows = enumerate(part_rows(self.config, part, columns, self.config.subset))
        return [self._prompt(f"{part}-{row}", *values) for row, values in rows]

    def _prompt(self, name: str, question: object, options: object, answer: object) -> Prompt:
        config = self.config
        where = f"task.path={config.path}: row {name}"
        (question,) = row_texts(where, (config.question_column, question))
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
