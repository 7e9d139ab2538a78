"""MMLU: questions about 57 subjects, with four options each (Hendrycks et al., 2021)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cory.config import ConfigError, MmluConfig, require
from cory.episode import Prompt
from cory.tasks.answers.choices import CHOICES, final_choice
from cory.tasks.data.prompt_set import PromptSet
from cory.tasks.data.tables import part_rows, row_texts
from cory.tasks.forms import AnswerForm

# values of the answer column: the numbers of the hub's data set, or letters
CHOICE_OF: dict[object, str] = {**dict(enumerate(CHOICES)), **{name: name for name in CHOICES}}


class MmluForm(AnswerForm):
    """Asks a question with four options; the answer is the letter of one."""

    config: MmluConfig

    def __init__(self, config: MmluConfig) -> None:
        super().__init__(config, final_choice)

    def prompt_of(self, text: str) -> Prompt:
        """A prompt without an answer; the last four lines of `text` are the options."""
        lines = text.strip().split("\n")
        require(
            len(lines) > len(CHOICES),
            f"task=mmlu: a probe is a question and four lines with its options; got '{text[:40]}'",
        )
        options = lines[-len(CHOICES) :]
        return Prompt(id="probe", text=self._text("\n".join(lines[: -len(CHOICES)]), options))

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
        PromptSet.__init__(self, config, self._prompts, tokenizer, stream)

    def _prompts(self, part: str) -> list[Prompt]:
        columns = ("question_column", "choices_column", "answer_column")
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
