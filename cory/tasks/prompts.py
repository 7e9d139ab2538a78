"""Prompts from rows of a data set, generated or of the user's own, with or without answers."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from pydantic_core import to_jsonable_python

from cory.config import ConfigError, PromptsConfig, nearest, require
from cory.episode import Prompt, are_messages, from_user
from cory.models.tokenization import Texts
from cory.seeding import EpochSampler
from cory.tasks.answers import CHOICES, answer_kind
from cory.tasks.problems import KINDS, draw_distinct
from cory.tasks.sandbox.process import answered_questions
from cory.tasks.splits import held_out_part, pick_subset, short_enough, untested
from cory.tasks.tables import Row, require_columns, rows_of, rows_of_split

# generated questions do not depend on a run's seed: all runs are trained and tested on the same
GENERATED_SEEDS = {"train": 20_241_002, "test": 20_241_003}


class _Blank:
    """Stands in a template for a value that is not there, in any format."""

    def __format__(self, spec: str) -> str:
        return "\0"


class PromptsForm:
    """Asks a text in the template of the settings; reads answers of the kind `task.answers`."""

    def __init__(self, config: PromptsConfig) -> None:
        self.config = config
        self.kind = answer_kind(config) if config.reads_answers else None
        # the texts around a prompt in its template, which an observer's may repeat without them;
        # a template with columns of the data has none before a text that is not in the data
        shown = config.prompt_template.format_map(defaultdict(_Blank)).split("\0")
        self.before, self.after = "" if config.template_columns else shown[0], shown[-1]

    def prompt_of(self, text: str) -> Prompt:
        """The text in the template, as a prompt without an answer.

        In place of the prompt and all columns of the data that the template names.
        """
        if self.config.prompt_template != "{prompt}":
            text = f"{self.before}{text.strip()}{self.after}"
        return Prompt(id="probe", text=text)

    def read(self, response: str) -> Hashable | None:
        """The answer in a response; None where none can be read, or prompts have no answers."""
        return None if self.kind is None else self.kind.read(response)

    def is_right(self, response: str, answer: str) -> bool:
        """Whether the response gives the prompt's answer; an unreadable one is wrong."""
        given = self.read(response)
        return given is not None and given == self.read(answer)

    def observer_context(self, query: str, answers: Sequence[str]) -> str:
        """The prompt of an agent that answers after others.

        Answers keep the space around them in `{query}{response}`, which is the completed text.
        """
        config = self.config
        if "{query}" not in config.answer_template:
            answers = [answer.strip() for answer in answers]
        quoted = config.answer_separator.join(
            config.answer_template.format(query=query, response=answer) for answer in answers
        )
        asked = query.removeprefix(self.before).removesuffix(self.after)
        return config.observer_template.format(query=query, prompt=asked, answers=quoted)


class PromptsTask(PromptsForm):
    """Prompts of a file, a folder, the hub or a generator; none is both trained and tested on.

    All are made when the task is built. Those of more than `task.max_prompt_tokens` tokens are left
    out, of both parts, with a note.
    """

    form = PromptsForm

    def __init__(self, config: PromptsConfig, tokenizer: Any, stream: np.random.Generator) -> None:
        super().__init__(config)
        self.tokenizer = tokenizer
        self._chat = Texts(tokenizer, "model.chat=true", tokenizer.chat_template is not None)
        train = self._prompts("train", config.train_split)
        if config.held_out_share is not None:
            train, test = held_out_part(train, config.held_out_share, config.pick_seed)
        else:
            assert config.test_split is not None  # the settings' own check
            test = self._prompts("test", config.test_split)
        from_files = config.source in ("path", "hub")
        where = f"task.path={config.path}" if from_files else f"task={config.name}"
        train, test = pick_subset(config, train, test)
        parts = {"training": untested(train, test, where), "test": test}
        train, test = short_enough(parts, self._tokens, config.max_prompt_tokens)
        self.parts = {"train": train, "test": test}
        said = (
            [prompt.text, prompt.answer_text, prompt.columns, prompt.messages]
            for part in self.parts.values()
            for prompt in part
        )
        self.sampler = EpochSampler(self.parts["train"], stream, said, where)

    def sample(self, count: int) -> list[Prompt]:
        """The next training prompts: each once per epoch, epochs in new random orders."""
        return [self.sampler.next() for _ in range(count)]

    def held_out(self, count: int | None, split: str) -> list[Prompt]:
        return self.parts[split][:count]

    def _tokens(self, prompt: Prompt) -> int:
        """Tokens of a prompt; of a chat without those that are around any single message."""
        if prompt.messages is None:
            return len(self.tokenizer(prompt.text, add_special_tokens=False)["input_ids"])
        return self._chat.tokens(prompt.opening) - self._chat.own_tokens

    def _rows(self, part: str, split: str) -> list[Row]:
        """The rows of a part, `train` or `test`, that `task.only` keeps."""
        config = self.config
        if config.source == "generated":
            return generated_rows(config, part, split)
        assert config.path is not None  # the settings' own check
        if config.programs is not None and part == "train":
            return answered_questions(config, split)
        subsets: list[str | None] = [None]  # of local files there is one part, without a name
        if config.source == "hub":
            subsets = [*config.subset] if isinstance(config.subset, list) else [config.subset]
        rows = [
            row
            for subset in subsets
            for row in rows_of(config.source, config.path, split, subset=subset)
        ]
        if config.only is None or config.only_column is None:
            return rows
        require_columns(rows, [("task.only_column", config.only_column)])
        return [row for row in rows if str(row.values[config.only_column]) in config.only]

    def _prompts(self, part: str, split: str) -> list[Prompt]:
        config, rows = self.config, self._rows(part, split)
        kept = "" if config.only is None else f" with task.only={config.only}"
        require(bool(rows), f"task.{part}_split={split} has no rows{kept}")
        wanted = [
            ("task.prompt_column", config.prompt_column),
            ("task.answer_column", config.answer_column),
            *(("task.columns", name) for name in config.columns or ()),
            *(("task.prompt_template", name) for name in config.template_columns),
        ]
        require_columns(rows, wanted)
        handed = config.columns
        if handed is None:
            handed = [name for name in rows[0].values if name != config.prompt_column]
        return [self._prompt(row, handed) for row in rows]

    def _prompt(self, row: Row, handed: Sequence[str]) -> Prompt:
        config = self.config
        value = row.values[config.prompt_column]
        where = f"{row.id}: '{config.prompt_column}'"
        messages, answer = None, self._answer_text(row)
        if isinstance(value, list):
            if config.answer_column == config.prompt_column:
                value = value[:-1]
            require(
                config.chat,
                f"{where} holds chat messages, which need a chat model: set model.chat=true and a "
                f"model whose tokenizer has a chat template, or name a column of texts",
            )
            require(
                are_messages(value) and value[-1]["role"] == "user",
                f"{where} must be messages, each a text as role and as content, the last one the "
                f"user's",
            )
            messages = list(value)
            value = messages[-1]["content"]
        if not isinstance(value, str) or not value.strip():
            raise ConfigError(
                f"{where} must be a text or a list of chat messages, got {str(value)[:40]!r}"
            )
        text = self._text(row, value)
        return Prompt(
            id=row.id,
            text=text,
            answer=self._answer(row, answer),
            answer_text=answer,
            columns={name: as_json(row.values[name], f"{row.id}: '{name}'") for name in handed},
            messages=None if messages is None else (*messages[:-1], from_user(text)),
        )

    def _text(self, row: Row, prompt: str) -> str:
        """The prompt in the template, with the row's columns that the template names."""
        template = self.config.prompt_template
        if template == "{prompt}":  # with the space around it, which a text to continue may need
            return prompt
        values: dict[str, Any] = {"prompt": prompt.strip()}
        for name in self.config.template_columns:
            cell = row.values[name]
            require(cell is not None, f"{row.id} has no '{name}', which task.prompt_template needs")
            values[name] = cell.strip() if isinstance(cell, str) else cell
            if isinstance(cell, list):
                values[name] = options(cell, f"{row.id}: '{name}'")
        try:
            return template.format(**values)
        except (ValueError, TypeError) as error:  # as {price:.2f} of a text
            raise ConfigError(f"{row.id}: task.prompt_template: {error}") from None

    def _answer_text(self, row: Row) -> str | None:
        """The answer as the data has it; of chat messages it is the last one, the assistant's."""
        config = self.config
        if config.answer_column is None:
            return None
        value, own = row.values[config.answer_column], config.answer_column == config.prompt_column
        if isinstance(value, list) and value and isinstance(value[-1], dict):
            only = own or len(value) == 1
            value = value[-1].get("content") if only and value[-1]["role"] == "assistant" else None
        elif own:
            value = None
        text = str(value).strip() if isinstance(value, str | int | float) else ""
        where = f"{row.id}: '{config.answer_column}'"
        require(bool(text) or not own, f"{where} must be messages, the last one the assistant's")
        require(bool(text) or self.kind is not None, f"{where} must be a text, or one message")
        return text

    def _answer(self, row: Row, text: str | None) -> str | None:
        """The right answer, of the whole one of the data, as a text that `read` reads."""
        config = self.config
        if self.kind is None or text is None:
            return None
        answer = self.kind.gold(text)
        if answer is None:
            value = row.values[str(config.answer_column)]
            raise ConfigError(
                f"{row.id}: '{config.answer_column}' must be {self.kind.wanted} with "
                f"task.answers={config.answers}, got {str(value)[-40:]!r}"
            )
        return answer


def as_json(value: Any, where: str) -> Any:
    """A value as JSON has it, dates as ISO 8601; ConfigError for one that JSON does not know."""
    try:
        return to_jsonable_python(value)
    except ValueError:  # of pydantic, also where bytes are no text
        raise ConfigError(
            f"{where} holds a {type(value).__name__}, which JSON does not know: name the columns "
            f"that episodes need in task.columns"
        ) from None


def generated_rows(config: PromptsConfig, part: str, split: str) -> list[Row]:
    """Generated questions and answers of a part, or of a slice of it; the same for every run."""
    count = config.train_problems if part == "train" else config.test_problems
    assert config.kinds is not None and count is not None  # the settings' own check
    for kind in config.kinds:
        meant = nearest(kind, [*KINDS]) or f"; there are {', '.join(KINDS)}"
        require(kind in KINDS, f"task.kinds: {kind} is no kind of problem{meant}")
    stream = np.random.default_rng(GENERATED_SEEDS[part])
    problems = draw_distinct(stream, config.kinds, part, count)
    asked, column = config.prompt_column, str(config.answer_column)
    return [
        Row(f"{part}:{row + 1}", {asked: one.question, column: one.answer, **one.columns})
        for row in rows_of_split(split, part, count)
        for one in [problems[row]]
    ]


def options(texts: Sequence[Any], where: str) -> str:
    """Four texts as a question's options, on a line each, as `(A) Paris`."""
    right = len(texts) == len(CHOICES) and all(str(text or "").strip() for text in texts)
    require(right, f"{where} must be a text, or a list of four that are options")
    lettered = zip(CHOICES, texts, strict=True)
    return "\n".join(f"({letter}) {str(text).strip()}" for letter, text in lettered)
