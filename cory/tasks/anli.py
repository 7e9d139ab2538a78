"""ANLI: whether a hypothesis follows from a premise (Nie et al., 2020)."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from cory.config import AnliConfig, require
from cory.episode import Prompt
from cory.tasks.answers.labels import LABELS, final_label
from cory.tasks.data.prompt_set import PromptSet
from cory.tasks.data.tables import part_rows, row_texts
from cory.tasks.forms import AnswerForm

# values of the label column: the numbers of the hub's data set, also as texts, or names
LABEL_OF: dict[object, str] = {
    value: label for number, label in enumerate(LABELS) for value in (number, str(number), label)
}


class AnliForm(AnswerForm):
    """Asks for the relation of a premise and a hypothesis; the answer is one of three labels."""

    config: AnliConfig

    def __init__(self, config: AnliConfig) -> None:
        super().__init__(config, final_label)

    def prompt_of(self, text: str) -> Prompt:
        """A prompt without an answer; the last line of `text` is the hypothesis."""
        premise, _, hypothesis = text.strip().rpartition("\n")
        require(
            bool(premise.strip()),
            f"task=anli: a probe is a premise, a line break and a hypothesis; got '{text[:40]}'",
        )
        return Prompt(id="probe", text=self._text(premise, hypothesis))

    def _text(self, premise: str, hypothesis: str) -> str:
        return self.config.prompt_template.format(
            premise=premise.strip(), hypothesis=hypothesis.strip()
        )


class AnliTask(AnliForm, PromptSet):
    """Premises and hypotheses of the data set."""

    form = AnliForm

    def __init__(self, config: AnliConfig, tokenizer: Any, stream: np.random.Generator) -> None:
        AnliForm.__init__(self, config)
        PromptSet.__init__(self, config, self._prompts, tokenizer, stream)

    def _prompts(self, part: str) -> list[Prompt]:
        columns = ("premise_column", "hypothesis_column", "label_column")
        rows = enumerate(part_rows(self.config, part, columns))
        return [self._prompt(f"{part}-{row}", *values) for row, values in rows]

    def _prompt(self, name: str, premise: object, hypothesis: object, label: object) -> Prompt:
        config = self.config
        where = f"task.path={config.path}: row {name}"
        columns = (config.premise_column, premise), (config.hypothesis_column, hypothesis)
        text = self._text(*row_texts(where, *columns))
        require(
            isinstance(label, Hashable) and label in LABEL_OF,  # 1.0 is 1, a list is nothing
            f"{where}: '{config.label_column}' must be 0, 1, 2 or one of {', '.join(LABELS)}, "
            f"got {label}",
        )
        return Prompt(id=f"anli-{name}", text=text, answer=LABEL_OF[label])
