"""ANLI: does a hypothesis follow from a premise? (Nie et al., 2020)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cory.config import AnliConfig, ConfigError, require
from cory.episode import Prompt
from cory.tasks.answers.labels import LABELS, final_label
from cory.tasks.data.prompt_set import PromptSet, PromptSetTask
from cory.tasks.data.subset import pick_subset
from cory.tasks.data.tables import column, hub_table, local_table

# as the hub's data set numbers them, or by name
LABEL_OF: dict[object, str] = {**dict(enumerate(LABELS)), **{label: label for label in LABELS}}


class AnliForm:
    """Premise and hypothesis, asked for their relation; the answer is one of three labels."""

    def __init__(self, config: AnliConfig) -> None:
        self.config = config

    def prompt_of(self, text: str) -> Prompt:
        """A pair from elsewhere: the hypothesis is the text's last line; its label is not known."""
        premise, _, hypothesis = text.strip().rpartition("\n")
        require(
            bool(premise.strip()),
            f"task=anli: a probe is a premise, a line break and a hypothesis; got '{text[:40]}'",
        )
        return Prompt(id="probe", text=self._text(premise, hypothesis))

    def observer_context(self, query: str, answers: Sequence[str]) -> str:
        """The same message, with the answers given before."""
        return self.config.with_answers(query, answers)

    def read(self, response: str) -> str | None:
        """The label that the response names as its answer."""
        return final_label(response)

    def is_right(self, response: str, answer: str) -> bool:
        """Whether that is the right label."""
        return final_label(response) == answer

    def _text(self, premise: str, hypothesis: str) -> str:
        return self.config.prompt_template.format(
            premise=premise.strip(), hypothesis=hypothesis.strip()
        )


class AnliTask(AnliForm, PromptSetTask):
    """Pairs of the data set."""

    def __init__(self, config: AnliConfig, tokenizer: Any, stream: np.random.Generator) -> None:
        super().__init__(config)
        train, test = pick_subset(config, self._prompts("train"), self._prompts("test"))
        self.prompt_set = PromptSet(train, test, tokenizer, config.max_prompt_tokens, stream)

    def _prompts(self, part: str) -> list[Prompt]:
        config = self.config
        split = config.train_split if part == "train" else config.test_split
        names = (config.premise_column, config.hypothesis_column, config.label_column)
        if config.source == "hub":
            offline = "task.source=path with a local file or folder"
            table = hub_table(config.path, None, split, offline)
        else:
            table = local_table(config.path, split, names, sliced=not config.picks())
        keys = ("task.premise_column", "task.hypothesis_column", "task.label_column")
        columns = [column(table, key, name) for key, name in zip(keys, names, strict=True)]
        rows = enumerate(zip(*columns, strict=True))
        return [self._prompt(f"{part}-{row}", *pair) for row, pair in rows]

    def _prompt(self, name: str, premise: object, hypothesis: object, label: object) -> Prompt:
        config = self.config
        where = f"task.path={config.path}: row {name}"
        texts = {config.premise_column: premise, config.hypothesis_column: hypothesis}
        for key, text in texts.items():
            if not isinstance(text, str) or not text.strip():
                raise ConfigError(f"{where} has no text in '{key}'")
        require(
            label in LABEL_OF,
            f"{where}: '{config.label_column}' must be 0, 1, 2 or one of {', '.join(LABELS)}, "
            f"got {label}",
        )
        text = self._text(str(premise), str(hypothesis))
        return Prompt(id=f"anli-{name}", text=text, answer=LABEL_OF[label])
