"""A chat model behind an OpenAI-compatible endpoint: requests in parallel, replies kept on disk.

And an agent that is such a model.
"""

import hashlib
import json
import os
import re
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cory import distributed
from cory.config import ConfigError, EndpointConfig, SamplingConfig, require
from cory.episode import TEXT_ONLY, Asked, Context, Message, Turn, as_messages, as_text
from cory.models.tokenization import apart
from cory.runs.files import append_lines, keep_lines, read_lines, whole_lines

REPLIES = "endpoint.jsonl"  # in the run directory: replies to agents
Name = tuple[str, str]  # of a request: its key, and a digest of its content and settings

TOO_LONG = "too_long"  # finish reason of a request that the server refuses for its length
# what servers say then: OpenAI and llama.cpp by a code, vLLM, TGI and others by their message
LENGTH_CODES = ("context_length_exceeded", "exceed_context_size_error")
LENGTH_WORDS = re.compile(
    r"(?i)context (?:length|window|size)|prompt is too long|inputs?`? tokens .* must be <="
)
FILTERED = "content_filter"  # finish reason or error code of a reply that the server withholds


@dataclass(frozen=True)
class Reply:
    text: str  # may be empty, as after a content filter
    prompt_tokens: int
    completion_tokens: int
    finish_reason: str  # stop | length | content_filter | too_long | ...
    model: str  # the server's name of the model that replied, mostly with a version
    thinking: str = ""  # before the text, which servers return apart or in it


@dataclass(frozen=True)
class Ask:
    """One request, and the key under which its reply is kept."""

    key: str  # made by the run, as `game-7/3`; the same request is sent once per key
    messages: Sequence[Message]
    shorter: bool = False  # where it is too long for the server, a shorter one is asked instead


class Endpoint:
    """A chat model that gets requests in batches; every process calls each method.

    The first process sends them and shares the replies. Each reply is on the disk before the next
    request of its thread, so a run that was killed pays for none of them again.
    """

    def __init__(self, config: EndpointConfig, cache: Path) -> None:
        """cache: a .jsonl file of replies, each with its request's name; made with the first."""
        self.config, self.cache = config, cache
        self.replies: dict[Name, Reply] = {}
        self.lock = threading.Lock()
        if distributed.rank() == 0:
            self.client = client_of(config)
            if cache.exists():
                keep_lines(cache, whole_lines(cache))  # a kill may have torn the last
                try:
                    for line in read_lines(cache):
                        name = line.pop("key"), line.pop("digest")
                        self.replies[name] = Reply(**line)
                except (ValueError, TypeError, LookupError) as error:
                    raise ConfigError(f"{cache} is damaged: {error}") from None

    def complete(self, asks: Sequence[Ask]) -> list[Reply]:
        """A reply to each request, in order; those in the cache are not requested again.

        A request with `shorter` that is too long gets an empty reply with the finish reason
        TOO_LONG, which is kept, too. ConfigError, in one line with address and model, for any
        other that the server refuses, and where the last try fails.
        """
        return distributed.first_works(lambda: self._complete(asks))

    def _complete(self, asks: Sequence[Ask]) -> list[Reply]:
        names = [self._name(ask) for ask in asks]
        left = {n: ask for n, ask in zip(names, asks, strict=True) if n not in self.replies}
        failed = threading.Event()  # then no further request begins

        def keep(name: Name, ask: Ask) -> None:
            """Ask, and keep the reply; it is on the disk itself when this returns."""
            if failed.is_set():
                return
            try:
                reply, (key, digest) = self._reply(ask), name
                with self.lock:
                    self.cache.parent.mkdir(parents=True, exist_ok=True)
                    append_lines(self.cache, [{"key": key, "digest": digest, **asdict(reply)}])
                    self.replies[name] = reply
            except BaseException:
                failed.set()
                raise

        with ThreadPoolExecutor(self.config.parallel) as threads:
            list(threads.map(keep, left, left.values()))  # raises the first error
        return [self.replies[name] for name in names]

    def spent(self) -> tuple[int, int]:
        """Requests answered and tokens sent and received, over all starts of the run."""
        replies = self.replies.values()
        tokens = sum(reply.prompt_tokens + reply.completion_tokens for reply in replies)
        return distributed.from_first((len(replies), tokens))

    def _reply(self, ask: Ask) -> Reply:
        import openai  # noqa: PLC0415  an extra, and nearly all runs do without

        config = self.config
        settings = {
            "temperature": config.temperature,
            "top_p": config.top_p,
            config.limit_name: config.max_tokens,
        }
        try:
            answer = self.client.chat.completions.create(
                model=config.model,
                messages=list(ask.messages),
                **{name: value for name, value in settings.items() if value is not None},
            )
            choice, usage = answer.choices[0], answer.usage
            reason = choice.finish_reason or ""
            thought, text = apart("" if reason == FILTERED else choice.message.content or "")
            for name in ("reasoning_content", "reasoning"):
                thought = thought or getattr(choice.message, name, None) or ""
            # max_tokens may cut a character in half, which cannot be encoded
            text, thought = (one.encode("utf-8", "replace").decode() for one in (text, thought))
            tokens = int(usage.prompt_tokens), int(usage.completion_tokens)
            return Reply(text, *tokens, reason, str(answer.model), thought)
        except openai.APIError as error:
            if error.code == FILTERED:  # some servers withhold replies to single prompts so
                return Reply("", 0, 0, FILTERED, config.model)
            if ask.shorter and too_long(error):
                return Reply("", 0, 0, TOO_LONG, config.model)
            raise self._refusal(error) from None
        # no JSON, or not in the client's types
        except (ValueError, AttributeError, IndexError, TypeError):
            raise self._refusal("the answer is not a chat completion with usage") from None

    def _refusal(self, reason: object) -> ConfigError:
        """One line with address and model, and without the key, which some servers quote."""
        config = self.config
        cause = getattr(reason, "__cause__", None)  # of a failed connection
        said = " ".join(f"{reason} {cause or ''}".split())
        if config.key_variable is not None:
            said = said.replace(self.client.api_key, "***")
        return ConfigError(
            f"{config.key}.base_url={config.base_url}, model {config.model}: {said[:300]}; the "
            f"replies that came are kept, the same command goes on with them"
        )

    def _name(self, ask: Ask) -> Name:
        """Key and digest of a request; without the server's address, which may change."""
        config = self.config
        asked = [
            *(config.model, config.temperature, config.top_p, config.max_tokens),
            [[message["role"], message["content"]] for message in ask.messages],
        ]
        return ask.key, hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def too_long(error: Any) -> bool:
    """Whether a server refuses a request for its length, by its error code or its words."""
    refused = getattr(error, "status_code", None) in (400, 413, 422)
    return refused and (error.code in LENGTH_CODES or bool(LENGTH_WORDS.search(error.message)))


def client_of(config: EndpointConfig) -> Any:
    """The client, which retries what may pass; ConfigError without its package, or without the key.

    The key is read from the environment and goes to `base_url` alone.
    """
    key = "none"  # never left out: the client would send OPENAI_API_KEY to any server
    if config.key_variable is not None:
        where = f"{config.key}.key_variable={config.key_variable}"
        key = os.environ.get(config.key_variable, "").strip()
        require(bool(key), f"{where}: this environment variable is not set; it has to hold the key")
    try:
        import openai  # noqa: PLC0415  as in Endpoint._reply
    except ImportError:
        raise ConfigError(
            f"{config.key} needs the package openai: pip install '.[openai]'"
        ) from None
    return openai.OpenAI(
        api_key=key, base_url=config.base_url, timeout=config.timeout, max_retries=config.retries
    )


@dataclass
class EndpointActor:
    """An `Actor`. Its sampling is the endpoint's own settings'.

    Replies are stored by the keys of what is asked, so that a restarted run pays for none of them
    twice, whatever it asks at once; so is what the server found too long.
    """

    name: str
    endpoint: Endpoint

    def turns(
        self, asked: Sequence[Asked], limit: int, sampling: SamplingConfig | None
    ) -> list[Turn | None]:
        """As `Actor`; limit, sampling and random numbers are not used."""
        asks = [Ask(one.key, as_messages(one.context), shorter=True) for one in asked]
        replies = self.endpoint.complete(asks)
        return [
            None
            if reply.finish_reason == TOO_LONG
            else Turn(
                agent=self.name,
                role=one.role,
                round=one.round,
                context=as_text(one.context),
                asked=one.context,
                response=reply.text.strip(),
                context_ids=[],
                response_ids=TEXT_ONLY,
                cut_off=reply.finish_reason == "length",
                thinking=reply.thinking,
            )
            for one, reply in zip(asked, replies, strict=True)
        ]

    def fits(self, context: Context, limit: int) -> bool:
        """As `Actor`: the server checks that itself."""
        return True
