"""One request to a chat model on a server: its pace, its retries, its refusals."""

import json
import os
import random
import re
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from cory.config import ConfigError, EndpointConfig, require

Message = Mapping[str, str]  # role (system, user, assistant) and content
FIRST_WAIT_S = 0.5  # before the second try; twice as long before each further one ...
LONGEST_WAIT_S = 60.0  # ... up to this, unless the server asks for more
TOLD_S = 60.0  # longer waits that the server asks for are reported
# status codes worth another try, beside 5xx: time-out, conflict, too many requests
PASSING = (408, 409, 429)
TOO_LONG = "too_long"  # finish reason of a request that the server refuses for its length
# what servers say then: OpenAI by its code, vLLM, llama.cpp, TGI, others by their message
LENGTH_CODES = ("context_length_exceeded", "exceed_context_size_error")
LENGTH_SAID = re.compile(
    r"(?i)context (?:length|window|size)|prompt is too long|inputs?`? tokens .* must be <="
)
FILTERED = "content_filter"  # finish reason or error code of a reply that the server withholds
USED_UP = "insufficient_quota"  # error code of a 429 that does not pass


@dataclass(frozen=True)
class Reply:
    """The model's reply to one request."""

    text: str  # may be empty, as after a content filter
    prompt_tokens: int
    completion_tokens: int
    finish_reason: str  # stop | length | content_filter | ...
    model: str  # the server's name of the model that replied, mostly with a version


class GivenUp(Exception):
    """A request that was not sent, as another one has failed for good or the run is to stop."""


class TooLong(ConfigError):
    """The server refuses a request for its length: a shorter one may be answered."""


class Passing(Exception):
    """A failure that may pass; after: seconds that the server asks to wait."""

    def __init__(self, reason: str, after: float = 0.0) -> None:
        super().__init__(reason)
        self.after = after


class Pace:
    """Limits the rate of tries, over all threads."""

    def __init__(self, per_minute: float | None, given_up: threading.Event) -> None:
        self.gap = 0.0 if per_minute is None else 60 / per_minute
        self.given_up = given_up
        self.next = 0.0
        self.lock = threading.Lock()

    def wait(self) -> None:
        """Return when the next try may begin."""
        while True:
            with self.lock:
                now = time.monotonic()
                if now >= self.next:
                    self.next = now + self.gap
                    return
                rest = self.next - now
            self.sleep(rest)

    def sleep(self, seconds: float) -> None:
        """Wait; GivenUp as soon as no request is to be sent any more."""
        if self.given_up.wait(seconds):
            raise GivenUp

    def hold(self, seconds: float) -> float:
        """Begin no try for so long; returns by how many seconds that delays the next one."""
        with self.lock:
            until, before = time.monotonic() + seconds, max(self.next, time.monotonic())
            self.next = max(self.next, until)
            return until - before


class Remote:
    """A chat model on a server, used from any number of threads."""

    def __init__(self, config: EndpointConfig, given_up: threading.Event) -> None:
        """given_up: once it is set, no further try begins."""
        self.config = config
        self.given_up = given_up
        self.pace = Pace(config.requests_per_minute, given_up)
        # apart from the run's random numbers: only waiting times are drawn
        self.jitter = random.Random()
        self.key = _key(config)
        self.client = _client(config, self.key)

    def ask(self, messages: Sequence[Message]) -> Reply:
        """The model's reply; ConfigError where the server refuses or the last try fails.

        Of these it is TooLong where the request does not fit into the model's context.
        """
        for tried in range(self.config.retries + 1):
            self.pace.wait()
            if self.given_up.is_set():
                raise GivenUp
            try:
                return self._try(messages)
            except Passing as failure:
                last = failure
            if last.after and self.pace.hold(last.after) > TOLD_S:
                asked = f"{self.config.base_url} asks to wait {last.after:.0f} s"
                print(f"note: {asked}", file=sys.stderr)
            if tried < self.config.retries:
                longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2**tried)
                self.pace.sleep(longest * self.jitter.uniform(0.5, 1.0))
        raise ConfigError(
            f"{self.config.key}.base_url={self.config.base_url}: {self.config.retries + 1} tries "
            f"of one request to model {self.config.model} failed, the last with {last}; "
            f"the replies that came are kept, the same command goes on with them"
        )

    def _try(self, messages: Sequence[Message]) -> Reply:
        import openai  # noqa: PLC0415  an extra, and nearly all runs do without

        config = self.config
        sampling = {
            "temperature": config.temperature,
            "top_p": config.top_p,
            config.limit_name: config.max_tokens,
        }
        try:
            # the raw body: servers do not always answer in the client's types
            answer = self.client.chat.completions.with_raw_response.create(
                model=config.model,
                messages=[dict(message) for message in messages],
                **{name: value for name, value in sampling.items() if value is not None},
            )
        except openai.APITimeoutError:
            raise Passing(f"no answer within {config.timeout:g} s") from None
        except openai.APIConnectionError as error:
            raise Passing(f"no connection ({error.__cause__ or error})") from None
        except openai.APIStatusError as error:
            status, code = error.status_code, error.code
            if code == FILTERED:  # some servers filter prompts so
                return Reply("", 0, 0, FILTERED, config.model)
            if (status in PASSING or status >= 500) and code != USED_UP:
                after = _seconds(error.response.headers.get("retry-after"))
                raise Passing(f"status {status}{self._said(error.message)}", after) from None
            refusal = self._refusal(status, code, error.message)
            if status in (400, 413, 422) and too_long(code, error.message):
                raise TooLong(str(refusal)) from None
            raise refusal from None
        return read_reply(answer.content)

    def _refusal(self, status: int, code: str | None, said: str) -> ConfigError:
        """The refusal for a status that another try would not change, with what to do about it."""
        config = self.config
        where = f"{config.key}: {config.base_url} refuses model {config.model} with {status}"
        if status == 401:
            # without the server's text: some servers quote a part of the key
            variable = config.key_variable
            cure = (
                "set key_variable, the server asks for a key"
                if variable is None
                else f"check the key in the environment variable {variable}"
            )
            return ConfigError(f"{where}: {cure}")
        cures = {
            400: f"a setting of {config.key} does not suit it",
            403: "the key may not use this model",
            404: "check base_url, which mostly ends in /v1, and model",
        }
        cure = cures.get(status, "it will not answer this request")
        if code == USED_UP:
            cure = "what the key may spend is used up"
        return ConfigError(f"{where}: {cure}{self._said(said)}")

    def _said(self, text: str) -> str:
        """The server's message in brackets, on one line, without the key."""
        line = " ".join(text.split())
        if self.key:
            line = line.replace(self.key, "***")
        return f" ({line[:200]})" if line else ""


def too_long(code: str | None, said: str) -> bool:
    """Whether a server refuses a request for its length, by its error code or its words."""
    return code in LENGTH_CODES or bool(LENGTH_SAID.search(said))


def read_reply(body: bytes) -> Reply:
    """The reply in a server's answer; Passing where it is no chat completion."""
    try:
        answer = json.loads(body)
        choice, usage = answer["choices"][0], answer["usage"]
        reason = choice["finish_reason"] or ""
        text = choice["message"]["content"] or ""
        if not isinstance(text, str) or not isinstance(reason, str):
            raise TypeError
        tokens = int(usage["prompt_tokens"]), int(usage["completion_tokens"])
        model = str(answer["model"])
    except (ValueError, TypeError, LookupError):
        raise Passing("an answer that is not a chat completion with usage") from None
    if reason == FILTERED:
        text = ""  # text before the filter is not a reply
    # max_tokens may cut a character in half, which cannot be encoded
    text = text.encode("utf-8", "replace").decode("utf-8")
    return Reply(text, *tokens, reason, model)


def require_client(config: EndpointConfig) -> None:
    """ConfigError where no request can be sent: without the package, or the key."""
    _client(config, _key(config))


def _key(config: EndpointConfig) -> str | None:
    """The API key from the environment; None where the server needs none."""
    if config.key_variable is None:
        return None
    where = f"{config.key}.key_variable={config.key_variable}"
    key = os.environ.get(config.key_variable, "").strip()
    require(bool(key), f"{where}: this environment variable is not set; it has to hold the key")
    require(key.isascii() and key.isprintable(), f"{where}: what it holds cannot be a key")
    return key


def _client(config: EndpointConfig, key: str | None) -> Any:
    try:
        import openai  # noqa: PLC0415  as in Remote._try
    except ImportError:
        raise ConfigError(
            f"{config.key} needs the package openai: pip install '.[openai]'"
        ) from None
    return openai.OpenAI(
        # never left out: the client would send OPENAI_API_KEY to any server
        api_key=key or "none",
        base_url=config.base_url,
        timeout=config.timeout,
        max_retries=0,  # `Remote.ask` retries, at its own pace
    )


def _seconds(retry_after: str | None) -> float:
    """Seconds that a Retry-After header asks for, a number or a date; 0 if unreadable."""
    if retry_after is None:
        return 0.0
    if re.fullmatch(r"\d+(\.\d+)?", retry_after):
        return float(retry_after)
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return 0.0
