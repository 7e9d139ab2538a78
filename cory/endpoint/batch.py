"""A chat model behind an OpenAI-compatible endpoint: requests in parallel, each paid for once.

The first process sends the requests and shares the replies with the others. Replies are kept in a
journal as they come, so a run that was killed pays for none of them again.
"""

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
from cory.endpoint.client import TOO_LONG, GivenUp, Message, Remote, Reply, TooLong
from cory.endpoint.reply_cache import Journal, Name, Spent

# seconds: the processes meet at least this often, as a collective that waits for some ten minutes
# would end the run
BEAT_S = 10.0
# of a message beside its text; the frame of a request counts as one more message
TOKENS_PER_MESSAGE = 16


@dataclass(frozen=True)
class Ask:
    """One request, and the key under which its reply is kept."""

    key: str  # made by the run, as `game-7/3`; the same request is sent once per key
    messages: Sequence[Message]
    shorter: bool = False  # where it is too long for the server, a shorter one is asked instead


class Endpoint:
    """A chat model that gets requests in batches; every process calls each method."""

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
        """A reply to each request, in order; those in the journal are not requested again.

        A request with `shorter` that is too long gets an empty reply with the finish reason
        TOO_LONG, which is kept, too; any other that is too long ends the run.

        before_each(replies so far, replies in all): called every few seconds; what it raises ends
            the batch, with replies to requests under way still waited for and kept
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

    def unanswered(self, asks: Sequence[Ask]) -> list[bool]:
        """Of each request, whether it would be sent: no reply to it is in the journal."""
        return distributed.from_first(
            [(ask.key, self._digest(ask.messages)) not in self.journal.replies for ask in asks]
            if self.first
            else []
        )

    def spent(self) -> Spent:
        """The cost of all replies in the journal, over all starts of the run."""
        return distributed.from_first(self.journal.spent if self.first else Spent())

    @contextmanager
    def _asking(self, asks: dict[Name, Ask]) -> Iterator[list[Future[None]]]:
        """Send the requests without a reply in the journal, in threads of the first process."""
        if not self.first:
            yield []
            return
        self.given_up.clear()
        threads = ThreadPoolExecutor(self.config.parallel)
        lacking = [(name, ask) for name, ask in asks.items() if name not in self.journal.replies]
        try:
            yield [threads.submit(self._ask, name, ask) for name, ask in lacking]
        finally:
            self.given_up.set()
            threads.shutdown(cancel_futures=True)

    def _ask(self, name: Name, ask: Ask) -> None:
        try:
            with self.budget.room_for(ask.messages):
                self.journal.add(name, self._reply(ask))
        except GivenUp:  # another request has failed, and raises the reason
            return
        except Exception:  # whatever it is, it is raised again (detail 17)
            self.given_up.set()  # here, before this thread takes up another request
            raise

    def _reply(self, ask: Ask) -> Reply:
        try:
            return self.remote.ask(ask.messages)
        except TooLong:
            if not ask.shorter:
                raise
            return Reply("", 0, 0, TOO_LONG, self.config.model)

    def _digest(self, messages: Sequence[Message]) -> str:
        """A hash of the request; without the server's address, which may change."""
        config = self.config
        asked = [
            *(config.model, config.temperature, config.top_p, config.max_tokens),
            [[message["role"], message["content"]] for message in messages],
        ]
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def unanswered(asking: Sequence[Future[None]]) -> int:
    """Wait a while; the number of requests without reply. Raises the error of one that failed."""
    done, left = wait(asking, timeout=BEAT_S, return_when=FIRST_EXCEPTION)
    for future in done:
        future.result()
    return len(left)


class Budget:
    """Keeps the cost of replies below `max_cost`, with several requests at once."""

    def __init__(self, config: EndpointConfig, journal: Journal) -> None:
        self.config = config
        self.journal = journal
        self.under_way: list[float] = []  # highest possible cost of each request under way
        self.settled = threading.Condition()

    @contextmanager
    def room_for(self, messages: Sequence[Message]) -> Iterator[None]:
        """Reserve the cost of a request; ConfigError where its reply could exceed `max_cost`."""
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
            f"{self.config.key}.max_cost={self.config.max_cost}: {self._spent():.4g} is spent on "
            f"{spent.requests} replies ({spent.prompt_tokens} + {spent.completion_tokens} tokens), "
            f"and the next may cost up to {most:.4g}; a higher limit goes on with what is there"
        )


def most_tokens(messages: Sequence[Message]) -> int:
    """An upper bound of the messages' tokens: tokenizers give at most one per byte."""
    size = sum(len(message["content"].encode("utf-8")) for message in messages)
    return size + TOKENS_PER_MESSAGE * (len(messages) + 1)
