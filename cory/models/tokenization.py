"""Token ids of texts, and texts of token ids: chat templates, special tokens and spaces.

Chat templates are used with arguments of the user's, and with the same date every day.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from jinja2 import Environment, TemplateError, TemplateSyntaxError
from jinja2.meta import find_undeclared_variables

from cory.config import ConfigError, require
from cory.config.base import line
from cory.config.model import DATE_FORM, TemplateConfig
from cory.episode import Context, Message, as_messages, from_user

# a sample prompt and its answer, to find what a template or tokenizer puts around them
ASKED, ANSWER = "word", "reply"
# around what a model says to itself: of Qwen3, SmolLM3, the DeepSeek-R1 distills and others
OPEN, CLOSE = "<think>", "</think>"
# what a template that shows today's date shows in every run, unless a setting says otherwise;
# Llama 3's templates have this one where they know no other
DATE = "26 Jul 2024"
CLOCK = {"date_string", "strftime_now"}  # by these, templates ask for the date
GIVEN = {"messages", "add_generation_prompt", *CLOCK}  # never by the user
MARKS = re.compile(r"{%-?\s*(end)?generation\s*-?%}")  # a tag of the library's, without variables
TODAY = re.compile(r"strftime_now\(\s*(['\"])(.*?)\1\s*\)")
UNFIXED = re.compile(r"strftime_now\s*\(")


def apart(text: str, opened: bool = False) -> tuple[str, str]:
    """What a model has said to itself in a response, without tags, and what it said to others.

    That is what follows its last `</think>`; nothing, while it thinks.

    opened: its template has begun the thinking
    """
    thought, closed, said = text.rpartition(CLOSE)
    if OPEN in said or (opened and not closed):
        thought, said = text, ""
    elif not closed:
        return "", said
    return thought.strip().removeprefix(OPEN).strip(), said.lstrip()


def opens(shown: str) -> bool:
    """Whether a rendered context ends in the beginning of the model's thinking."""
    return shown.rstrip().endswith(OPEN)


class Texts:
    """Reads and writes texts for one model, in its chat template if it chats."""

    def __init__(
        self,
        tokenizer: Any,
        said: str,
        chat: bool = False,
        template: TemplateConfig | None = None,
        key: str = "model.template",
        thinking: str = "shown",
    ) -> None:
        """said: the setting that the model comes from; key: that of `template`, for refusals.

        thinking: private | shown | auto: private where the template knows of it
        """
        self.tokenizer = tokenizer
        self.said = said
        self.chat = chat
        self.template = template_of(tokenizer if chat else None, template, said, key)
        known = CLOSE in (self.template.text or "")
        self.private = thinking == "private" or (thinking == "auto" and known)
        self.system: str | None = None  # what stands before every chat

    def with_system(self, system: str | None, key: str) -> "Texts":
        """These, with this message of the system before every chat from now on; None: none.

        key: its setting; ConfigError where the model is not shown it
        """
        if system is not None:
            rule = f"{self.said} has no chat template with a system prompt"
            require(self.chat and self.takes_system, line(key, system, rule))
            del self.asked, self.takes_system  # were found out without it
            self.system = system
        return self

    def fit(self, model: Any) -> None:
        """ConfigError where the model lacks embeddings, or the template refuses a sample prompt.

        Tokens that were added to the vocabulary and that no text has are no fault: some models have
        those of their relatives.
        """
        embedded = int(model.get_input_embeddings().weight.shape[0])
        read = self.ids([self.render(self.asked), self.render(self.asked, ANSWER)])
        tokenizer = self.tokenizer
        special = [tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.vocab_size - 1]
        most = max([*filter(None, special), *(token for row in read for token in row)])
        require(
            most < embedded,
            f"{self.said}: the tokenizer's token '{tokenizer.convert_ids_to_tokens(most)}' is "
            f"number {most}, and the model has embeddings for {embedded} tokens; take its own "
            f"tokenizer, or resize its embeddings",
        )

    def render(self, context: Context, answer: str | None = None) -> str:
        """A context as the model is shown it, up to where its answer begins, or with an answer.

        ConfigError in the template's own words where that refuses the messages.
        """
        if not self.chat:
            if not isinstance(context, str):
                raise ConfigError(f"{self.said}: chat=false, and prompts are chat messages")
            return context if answer is None else context + self.between + answer
        messages = self._opened(as_messages(context))
        if answer is not None:
            messages = [*messages, {"role": "assistant", "content": answer}]
        try:
            text: str = self.tokenizer.apply_chat_template(
                messages,
                tokenize=False,
                add_generation_prompt=answer is None,
                chat_template=self.template.text,
                **self.template.arguments,
            )
        except (TemplateError, TypeError, ValueError) as error:
            roles, reason = ", ".join(m["role"] for m in messages), " ".join(str(error).split())
            raise ConfigError(
                f"{self.said}: the chat template refuses messages of {roles}: {reason}"
            ) from None
        return text

    def read(
        self, contexts: Sequence[Context], limit: int, room: int
    ) -> tuple[list[str], list[list[int]]]:
        """The contexts as text and as tokens; ConfigError where one leaves a response no room.

        limit: tokens of a response; room: of the model's context
        """
        shown = [self.render(context) for context in contexts]
        rows = self.ids(shown)
        lengths = [*map(len, rows)]
        if min(lengths) == 0:
            raise ConfigError("a prompt has no tokens: the model needs at least one")
        if (longest := max(lengths)) + limit > room:
            raise ConfigError(
                f"a prompt of {longest} tokens and algorithm.sampling.max_response_tokens "
                f"({limit}) exceed the model's context of {room} tokens"
            )
        return shown, rows

    def ids(self, texts: Sequence[str], longest: int | None = None) -> list[list[int]]:
        """Token ids of each rendered text, cut to `longest`.

        A chat template writes all special tokens itself; else the tokenizer adds its own, as BOS.
        """
        rows: list[list[int]] = self.tokenizer(
            list(texts),
            add_special_tokens=not self.chat,
            truncation=longest is not None,
            max_length=longest,
        )["input_ids"]
        return rows

    def context_ids(self, context: Context) -> list[int]:
        return self.ids([self.render(context)])[0]

    def tokens(self, context: Context) -> int:
        return len(self.context_ids(context))

    @cached_property
    def own_tokens(self) -> int:
        """Tokens that the chat template, or the tokenizer with BOS, puts around a prompt."""
        words = len(self._bare([ASKED])[0])
        return self.tokens(self.asked) - words * len(as_messages(self.asked))

    def pairs(
        self, contexts: Sequence[str], responses: Sequence[str]
    ) -> list[tuple[list[int], list[int]]]:
        """Token ids of each rendered context and of a response behind it, without an end.

        On its own, a response might get a space that some tokenizers put before any text. One that
        would merge with the context's last token is read on its own all the same.
        """
        if not contexts:
            return []
        texts = [self.gap + response for response in responses]
        wholes = self.ids([context + text for context, text in zip(contexts, texts, strict=True)])
        rows = zip(self.ids(contexts), wholes, self._bare(texts), strict=True)
        return [
            (before, whole[len(before) :] if whole[: len(before)] == before else alone)
            for before, whole, alone in rows
        ]

    def require_learnable(self) -> None:
        """ConfigError where `answer_ids` cannot be learnt as what a model would have said."""
        context = self.render(self.asked)
        before, whole = self.ids([context, context + self.between + ANSWER])
        require(
            whole[: len(before)] == before and self.end is not None,
            f"{self.said}: its tokenizer reads a context and a response together otherwise than "
            f"one after the other, or has no EOS, so nothing can be learnt from texts",
        )

    def answer_ids(self, text: str) -> list[int]:
        """Token ids of a text as a response, ended as if the model had ended by itself.

        It stands behind its context with one space; in a chat as the template has it.
        """
        lead = self.between.removeprefix(self.gap)
        ((_, ids),) = self.pairs([self.render(self.asked)], [lead + text.strip()])
        assert self.end is not None
        return [*ids, self.end]

    def response(self, context: Sequence[int], ids: Sequence[int], plain: bool = True) -> str:
        """The text of a response: what its token ids add to the text of their context.

        On its own, the first word may lose the space before it. In a chat, white space that the
        template itself puts before an answer is not part of that.

        plain: leave special tokens out
        """
        before, whole, alone = (
            self.tokenizer.decode(row, skip_special_tokens=plain)
            for row in ([*context], [*context, *ids], [*ids])
        )
        # bytes that are no character may spoil the context's last one
        text: str = whole[len(before) :] if whole.startswith(before) else alone
        return text.removeprefix(self.gap)

    def parts(
        self, shown: str, context: Sequence[int], ids: Sequence[int], plain: bool = True
    ) -> dict[str, Any]:
        """Of a `Turn`: how many tokens are private thinking, their text, and the response.

        shown, context: the context as text and as token ids; plain: as of `response`
        """
        decode = self.tokenizer.decode
        raw = decode(ids)  # has the tags, though they be special tokens
        _, said = apart(raw, opens(shown))
        if not self.private or said == raw:
            return {"response": self.response(context, ids, plain)}
        count, rest = len(ids), ""
        if said:
            ends = raw.count(CLOSE)
            count = bisect_left(range(len(ids)), ends, key=lambda n: decode(ids[:n]).count(CLOSE))
            _, _, beside = decode(ids[:count]).rpartition(CLOSE)  # in the same token as the tag
            rest = beside + self.response([*context, *ids[:count]], ids[count:], plain)
        thought, _ = apart(self.response(context, ids[:count], plain), opened=True)
        return {"thinking_tokens": count, "thinking": thought, "response": rest.lstrip()}

    def pair(self, asked: Context, context: Sequence[int], ids: Sequence[int]) -> dict[str, Any]:
        """`prompt` and `completion` as TRL's SFTTrainer takes them: texts, or messages of a chat.

        asked: the context, of the token ids `context`; ids: of what is learnt after it
        """
        said = self.response(context, ids)
        if not self.chat:
            return {"prompt": asked, "completion": said}
        if opens(self.render(asked)):
            said = f"{OPEN}\n{said}"
        answer = {"role": "assistant", "content": said}
        return {"prompt": self._opened(as_messages(asked)), "completion": [answer]}

    @cached_property
    def asked(self) -> Context:
        """A sample prompt that the template takes: a message, after one of the system if need be.

        Where the template wants a system's message, the prompts may bring it.
        """
        try:
            self.render(ASKED)
        except ConfigError:
            asked = [{"role": "system", "content": ASKED}, from_user(ASKED)]
            self.render(asked)
            return asked
        return ASKED

    @cached_property
    def takes_system(self) -> bool:
        """Whether the chat template shows what the system says: some refuse it, or leave it out."""
        if self.asked != ASKED:
            return True
        try:
            told = self.render([{"role": "system", "content": ASKED}, from_user(ASKED)])
        except ConfigError:
            return False
        return told != self.render(ASKED)

    @cached_property
    def between(self) -> str:
        """What stands between a prompt and an answer to it: in a chat, as the template has it."""
        if not self.chat:
            return " "
        before, _, _ = self.render(self.asked, ANSWER).rpartition(ANSWER)
        shown = self.render(self.asked)
        if opens(shown):  # an answer ends the thinking at once
            return f"{CLOSE}\n\n"
        return before.removeprefix(shown) if before.startswith(shown) else ""

    @property
    def gap(self) -> str:
        """White space before an answer that is the template's own."""
        return self.between if self.chat and self.between.isspace() else ""

    @cached_property
    def end(self) -> int | None:
        """The token that ends an answer: in a chat the template's, if it has one; else EOS."""
        eos: int | None = self.tokenizer.eos_token_id
        if not self.chat:
            return eos
        _, found, after = self.render(self.asked, ANSWER).rpartition(ANSWER)
        added = self.tokenizer.added_tokens_decoder
        special = {*self.tokenizer.all_special_ids, *(i for i in added if added[i].special)}
        ends = (token for token in self._bare([after])[0] if found and token in special)
        return next(ends, eos)

    def _opened(self, messages: list[Message]) -> list[Message]:
        """Messages after that of the system; one of their own follows in the same message."""
        if self.system is None:
            return messages
        if messages[0]["role"] != "system":
            return [{"role": "system", "content": self.system}, *messages]
        both = f"{self.system}\n\n{messages[0]['content']}"
        return [{**messages[0], "content": both}, *messages[1:]]

    def _bare(self, texts: Sequence[str]) -> list[list[int]]:
        rows: list[list[int]] = self.tokenizer(list(texts), add_special_tokens=False)["input_ids"]
        return rows


@dataclass(frozen=True)
class Template:
    """A chat template, and what it is handed beside the messages."""

    text: str | None = None  # None: there is none
    arguments: dict[str, Any] = field(default_factory=dict)
    date: str | None = None  # what it shows as today's; None: it shows none


def template_of(
    tokenizer: Any | None, settings: TemplateConfig | None, said: str, key: str
) -> Template:
    """The template of a tokenizer, with these settings.

    The library hands plain values to a template, and no clock: dates are written into its text.

    tokenizer: None: of a model that does not chat; settings: None: none are made
    said: the setting that the model comes from; key: `settings`, for refusals
    ConfigError for an argument that it does not read, and where it cannot be read itself
    """
    given = {} if settings is None else dict(settings)
    chosen = {name: value for name, value in given.items() if value is not None}
    date = chosen.pop("date", None)
    text, read = (None, set[str]()) if tokenizer is None else _read(tokenizer, said)
    dated = bool(read & CLOCK)
    require(date is None or dated, f"{key}.date={date}: {said} has no chat template with a date")
    open_to = sorted(read - GIVEN)
    rule = f"{said} has no chat template that reads it, but {', '.join(open_to) or 'nothing'}"
    for name, value in chosen.items():
        require(name in open_to, line(f"{key}.{name}", value, rule))
    shown = date or DATE
    if text is not None and dated:
        day = datetime.strptime(shown, DATE_FORM)
        text = TODAY.sub(lambda found: repr(day.strftime(found[2])), text)
        require(not UNFIXED.search(text), f"{said}: the date in its chat template cannot be set")
    if "date_string" in read:
        chosen["date_string"] = shown
    return Template(text, chosen, shown if dated else None)


def _read(tokenizer: Any, said: str) -> tuple[str, set[str]]:
    """The text of a chat template and the variables that it reads."""
    try:
        text: str = tokenizer.get_chat_template()
        environment = Environment(extensions=["jinja2.ext.loopcontrols"])
        return text, find_undeclared_variables(environment.parse(MARKS.sub("", text)))
    except (ValueError, TemplateSyntaxError) as error:
        raise ConfigError(f"{said}: its chat template cannot be read: {error}") from None
