"""A chat model behind an OpenAI-compatible endpoint, asked many things at once and each only once.

Of several processes the first one asks, and the others get what it got. Replies are kept in a
journal as they come, so a run that was killed pays for none of them again.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cory import distributed
from cory.config import EndpointConfig, require
from cory.endpoint.client import GivenUp, Message, Remote, Reply
from cory.endpoint.reply_cache import Journal, Name, Spent

# the processes hear from each other at least this often: a collective that is waited for longer
# than some ten minutes would end the run
BEAT_S = 10.0
# beside its text, a message takes a few tokens; a request's own frame counts as one more message
TOKENS_PER_MESSAGE = 16


@dataclass(frozen=True)
class Ask:
    """One request, and the key under which its reply is kept."""

    key: str  # of the run's own making, as `game-7/3`; the same request is asked once per key
    messages: Sequence[Message]


class Endpoint:
    """A chat model that is asked in batches; every process calls each method."""

    def __init__(self, config: EndpointConfig, journal: Path) -> None:
        self.config = config
        self.given_up = threading.Event()
        self.first = distributed.rank() == 0
        if self.first:
            self.remote = Remote(config, self.given_up)
            self.journal = Journal(journal)
            self.budget = Budget(config, self.journal)

    def complete(
        self, asks: Sequence[Ask], before_each: Callable[[int, int], None] | None = None
    ) -> list[Reply]:
        """A reply to each, in their order; those in the journal are not asked for again.

        before_each(replies so far, replies in all): called every few seconds; what it raises ends
            the asking, and requests that are under way are still waited for and kept
        """
        names = [(ask.key, self._digest(ask.messages)) for ask in asks]
        with self._asking(dict(zip(names, asks, strict=True))) as asking:
            while True:
                left = distributed.from_first(unanswered(asking))
                if left == 0:
                    break
                if before_each is not None:
                    before_each(len(asks) - left, len(asks))
        return distributed.from_first(
            [self.journal.replies[name] for name in names] if self.first else []
        )

    def spent(self) -> Spent:
        """What all replies in the journal have taken, whichever start of the run they are from."""
        return distributed.from_first(self.journal.spent if self.first else Spent())

    @contextmanager
    def _asking(self, asks: dict[Name, Ask]) -> Iterator[list[Future[None]]]:
        """Threads that ask for what the journal lacks; in processes but the first one, none."""
        if not self.first:
            yield []
            return
        self.given_up.clear()
        threads = ThreadPoolExecutor(self.config.parallel)
        lacking = [(name, ask) for name, ask in asks.items() if name not in self.journal.replies]
        try:
            yield [threads.submit(self._ask, name, ask.messages) for name, ask in lacking]
        finally:
            self.given_up.set()
            threads.shutdown(cancel_futures=True)

    def _ask(self, name: Name, messages: Sequence[Message]) -> None:
        try:
            with self.budget.room_for(messages):
                self.journal.add(name, self.remote.ask(messages))
        except GivenUp:  # the reason is another request's
            return
        except Exception:  # whatever it is, it is raised again (detail 17)
            self.given_up.set()  # here, before this thread takes up another request
            raise

    def _digest(self, messages: Sequence[Message]) -> str:
        """Of what is asked and how; not of where, because a server of one's own may move."""
        config = self.config
        asked = [
            *(config.model, config.temperature, config.top_p, config.max_tokens),
            [[message["role"], message["content"]] for message in messages],
        ]
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def unanswered(asking: Sequence[Future[None]]) -> int:
    """How many requests are not answered yet, after a while; raises what one has failed with."""
    done, left = wait(asking, timeout=BEAT_S, return_when=FIRST_EXCEPTION)
    for future in done:
        future.result()
    return len(left)


class Budget:
    """Keeps what replies cost below `max_cost`, whatever several threads ask at once."""

    def __init__(self, config: EndpointConfig, journal: Journal) -> None:
        self.config = config
        self.journal = journal
        self.under_way: list[float] = []  # what each request under way may cost at most
        self.settled = threading.Condition()

    @contextmanager
    def room_for(self, messages: Sequence[Message]) -> Iterator[None]:
        """While a request is under way; refused where its reply could lead beyond `max_cost`."""
        most = self.config.cost(most_tokens(messages), self.config.max_tokens) or 0.0
        with self.settled:
            self.settled.wait_for(lambda: not self.under_way or self._fits(most))
            require(self._fits(most), self._refusal(most))
            self.under_way.append(most)
        try:
            yield
        finally:
            with self.settled:
                self.under_way.remove(most)
                self.settled.notify_all()

    def _spent(self) -> float:
        spent = self.journal.spent
        return self.config.cost(spent.prompt_tokens, spent.completion_tokens) or 0.0

    def _fits(self, most: float) -> bool:
        allowed = self.config.max_cost
        return allowed is None or self._spent() + sum(self.under_way) + most <= allowed

    def _refusal(self, most: float) -> str:
        spent = self.journal.spent
        return (
            f"algorithm.endpoint.max_cost={self.config.max_cost}: {self._spent():.4g} is spent on "
            f"{spent.requests} replies ({spent.prompt_tokens} + {spent.completion_tokens} tokens), "
            f"and the next may cost up to {most:.4g}; a higher limit goes on with what is there"
        )


def most_tokens(messages: Sequence[Message]) -> int:
    """No fewer tokens than the messages can be: tokenizers give at most one per byte."""
    size = sum(len(message["content"].encode("utf-8")) for message in messages)
    return size + TOKENS_PER_MESSAGE * (len(messages) + 1)
