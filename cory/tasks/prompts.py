"""Prompts of the user's own: a column of texts or of chat messages, with or without answers."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, time
from typing import Any

import numpy as np

from cory.config import ConfigError, PromptsConfig, require
from cory.episode import Prompt
from cory.tasks.answer_kinds import answer_kind
from cory.tasks.data.chats import chat_messages
from cory.tasks.data.prompt_set import PromptSet
from cory.tasks.data.subset import held_out_part
from cory.tasks.data.tables import Row, is_blank, require_columns, rows_of
from cory.tasks.forms import AnswerForm, NoAnswers


class PromptsForm(AnswerForm):
    """Asks a text in the template of the settings; reads answers of the kind `task.answers`."""

    config: PromptsConfig

    def __init__(self, config: PromptsConfig) -> None:
        self.kind = answer_kind(config.answers, config.seconds) if config.has_answers else None
        super().__init__(config, NoAnswers().read if self.kind is None else self.kind.read)

    def prompt_of(self, text: str) -> Prompt:
        """The text in the template, as a prompt without an answer."""
        others = self.config.template_columns
        require(
            not others,
            f"task.prompt_template needs {{{''.join(others[:1])}}}, a column of the data: a text "
            f"alone, as '{text[:40]}', cannot be asked",
        )
        return Prompt(id="probe", text=self.config.prompt_template.format(prompt=text))


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
        train = self._prompts(self._rows("train", config.train_split))
        if config.held_out_share is not None:
            train, test = held_out_part(train, config.held_out_share, config.pick_seed)
            return {"train": train, "test": test}
        assert config.test_split is not None  # the settings' own check
        test = self._prompts(self._rows("test", config.test_split))
        return {"train": train, "test": test}

    def _rows(self, part: str, split: str) -> list[Row]:
        config, key = self.config, f"task.{part}_split"
        return rows_of(config.source, config.path, split, split_key=key, subset=config.subset)

    def _prompts(self, rows: Sequence[Row]) -> list[Prompt]:
        config, names = self.config, list(rows[0].values)
        wanted = [
            ("task.prompt_column", config.prompt_column),
            ("task.answer_column", config.answer_column),
            *(("task.columns", name) for name in config.columns or ()),
            *(("task.prompt_template", name) for name in config.template_columns),
        ]
        require_columns(names, [(key, name) for key, name in wanted if name is not None])
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
        if not isinstance(value, str) or is_blank(value):
            raise ConfigError(
                f"{where} must be a text or a list of chat messages, got {str(value)[:40]!r}"
            )
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


def plain_value(value: object, where: str, column: str) -> Any:
    """A value as JSON has it, dates as ISO 8601; ConfigError for one that JSON does not know.

    where: the row, for the refusal
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [plain_value(entry, where, column) for entry in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain_value(entry, where, column) for key, entry in value.items()}
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    raise ConfigError(
        f"{where}: '{column}' holds {type(value).__name__}, which no reward is handed; name the "
        f"columns to hand over in task.columns"
    )
