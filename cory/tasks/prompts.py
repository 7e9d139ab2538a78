"""Prompts of the user's own: a column of texts or of chat messages, with or without answers."""

import sys
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cory import distributed
from cory.config import ConfigError, PromptsConfig, nearest, require
from cory.episode import Prompt
from cory.tasks.answer_kinds import answer_kind
from cory.tasks.data.chats import chat_messages
from cory.tasks.data.prompt_set import PromptSet
from cory.tasks.data.rows import Row, plain_value, rows_of
from cory.tasks.data.subset import held_out_part, without_tested
from cory.tasks.data.tables import is_blank


class PromptsForm:
    """Asks a text in the template of the settings; reads answers of the kind `task.answers`."""

    def __init__(self, config: PromptsConfig) -> None:
        self.config = config
        self.kind = answer_kind(config.answers, config.seconds) if config.has_answers else None

    def prompt_of(self, text: str) -> Prompt:
        """The text in the template, as a prompt without an answer."""
        others = self.config.template_columns
        require(
            not others,
            f"task.prompt_template needs {{{''.join(others[:1])}}}, a column of the data: a text "
            f"alone, as '{text[:40]}', cannot be asked",
        )
        return Prompt(id="probe", text=self.config.prompt_template.format(prompt=text))

    def read(self, response: str) -> Hashable | None:
        """The response's answer; None where prompts have no answers, or it gives none."""
        return None if self.kind is None else self.kind.read(response)

    def is_right(self, response: str, answer: str) -> bool:
        """Whether the response gives the answer `answer`."""
        return self.kind is not None and self.kind.is_right(response, answer)

    def observer_context(self, query: str, answers: Sequence[str]) -> str:
        """The prompt `query` with the answers of other agents."""
        return self.config.with_answers(query, answers)


class PromptsTask(PromptsForm, PromptSet):
    """Prompts of a file, a folder or a data set on the hub; none is both trained and tested on."""

    form = PromptsForm

    def __init__(self, config: PromptsConfig, tokenizer: Any, stream: np.random.Generator) -> None:
        PromptsForm.__init__(self, config)
        parts = self._divided()
        PromptSet.__init__(self, config, parts.__getitem__, tokenizer, stream)

    def _divided(self) -> dict[str, list[Prompt]]:
        """All prompts of both parts, `train` and `test`."""
        config = self.config
        train = self._prompts(rows_of(config, config.train_split, "task.train_split"))
        if config.held_out_share is not None:
            train, test = held_out_part(train, config.held_out_share, config.pick_seed)
            return {"train": train, "test": test}
        assert config.test_split is not None  # the settings' own check
        test = self._prompts(rows_of(config, config.test_split, "task.test_split"))
        self._check_same_columns(train[0], test[0])
        if config.picks():  # what is picked shares nothing
            return {"train": train, "test": test}
        free = without_tested(train, test)
        require(
            bool(free),
            f"task.path={config.path}: every prompt of task.train_split={config.train_split} is in "
            f"task.test_split={config.test_split}, too; none is left to train on",
        )
        if len(free) < len(train) and distributed.rank() == 0:
            print(
                f"note: task.path={config.path}: {len(train) - len(free)} of {len(train)} training "
                f"prompts are test prompts, too, and are left out of the training",
                file=sys.stderr,
            )
        return {"train": free, "test": test}

    def _check_same_columns(self, train: Prompt, test: Prompt) -> None:
        for one, other, has, lacks in (
            ("train", "test", train.columns, test.columns),
            ("test", "train", test.columns, train.columns),
        ):
            lacking = [name for name in has if name not in lacks]
            require(
                not lacking,
                f"task.path={self.config.path}: task.{other}_split has no column "
                f"'{''.join(lacking[:1])}' as task.{one}_split has; name the columns that the "
                f"reward is handed in task.columns",
            )

    def _prompts(self, rows: Sequence[Row]) -> list[Prompt]:
        config, names = self.config, list(rows[0].values)
        wanted: list[tuple[str, str | None]] = [
            ("task.prompt_column", config.prompt_column),
            ("task.answer_column", config.answer_column),
            *(("task.columns", name) for name in config.columns or ()),
            *(("task.prompt_template", name) for name in config.template_columns),
        ]
        for key, name in wanted:
            require(
                name is None or name in names,
                f"{key}: task.path={config.path} has no column '{name}'; it has "
                f"{', '.join(names)}{nearest(str(name), names)}",
            )
        handed = [name for name in names if name != config.prompt_column]
        handed = handed if config.columns is None else config.columns
        prompts = [self._prompt(row, handed) for row in rows]
        for prompt in prompts:
            require(
                (prompt.messages is None) == (prompts[0].messages is None),
                f"task.path={config.path}: '{config.prompt_column}' holds texts and chat messages; "
                f"{prompt.id} is of another kind than {prompts[0].id}",
            )
        return prompts

    def _prompt(self, row: Row, handed: Sequence[str]) -> Prompt:
        config = self.config
        value = row.values[config.prompt_column]
        where = f"{row.where}: '{config.prompt_column}'"
        messages = None
        if isinstance(value, list):
            require(
                config.chat,
                f"{where} holds chat messages, which need a chat model: set model.chat=true and a "
                f"model whose tokenizer has a chat template, or name a column of texts",
            )
            messages = chat_messages(value, where)
            value = messages[-1]["content"]
        require(value is not None, f"{where} is missing: every row needs a prompt")
        if not isinstance(value, str):
            raise ConfigError(
                f"{where} must be a text or a list of chat messages, got {str(value)[:40]}"
            )
        require(not is_blank(value), f"{where} is empty: every row needs a prompt")
        prompt = Prompt(
            id=row.id,
            text=self._text(row, value),
            answer=self._answer(row),
            columns={name: plain_value(row.values[name], row.where, name) for name in handed},
        )
        if messages is not None:
            messages[-1] = {**messages[-1], "content": prompt.text}
            prompt = replace(prompt, messages=tuple(messages))
        return prompt

    def _text(self, row: Row, prompt: str) -> str:
        """The prompt in the template, with the row's columns that the template names."""
        values: dict[str, Any] = {"prompt": prompt}
        for name in self.config.template_columns:
            values[name] = row.values[name]
            require(
                values[name] is not None,
                f"{row.where} has no '{name}', which task.prompt_template needs",
            )
        try:
            return self.config.prompt_template.format(**values)
        # a format that the value lacks, as {name:.2f} of a text or {name:>10} of a list
        except (ValueError, TypeError) as error:
            raise ConfigError(f"{row.where}: task.prompt_template: {error}") from None

    def _answer(self, row: Row) -> str | None:
        """The right answer as a text that `read` reads."""
        if self.kind is None:
            return None
        config = self.config
        assert config.answer_column is not None  # there is a kind
        value = row.values[config.answer_column]
        answer = self.kind.gold(value)
        if answer is None:
            raise ConfigError(
                f"{row.where}: '{config.answer_column}' must be {self.kind.wanted} with "
                f"task.answers={config.answers}, got {str(value)[-40:]!r}"
            )
        return answer
