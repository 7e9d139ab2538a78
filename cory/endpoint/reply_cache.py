"""Keeps all replies of a chat model on disk, so that a run pays for none of them twice."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cory.config import ConfigError
from cory.endpoint.client import Reply
from cory.runs.jsonl import JsonlStore
from cory.runs.run_dir import line_of

Name = tuple[str, str]  # of a request: its key, and a hash of its content and settings


@dataclass(frozen=True)
class Spent:
    """Requests and tokens so far."""

    requests: int = 0  # that were answered
    empty: int = 0  # replies without text
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def plus(self, reply: Reply) -> Spent:
        return replace(
            self,
            requests=self.requests + 1,
            empty=self.empty + (not reply.text.strip()),
            prompt_tokens=self.prompt_tokens + reply.prompt_tokens,
            completion_tokens=self.completion_tokens + reply.completion_tokens,
        )


class Journal:
    """Replies by the names of their requests; each is a line of a .jsonl file."""

    def __init__(self, path: Path) -> None:
        """Read the replies of the file, if any; further ones are added to it.

        It is made with the first of them: a run that is refused at its start leaves no file.
        """
        self.replies: dict[Name, Reply] = {}
        self.spent = Spent()
        self.lock = threading.Lock()
        self.store = JsonlStore(path)
        self.rows: list[bytes] | None = self.store.read()[0]  # None: the file is open
        for number, row in enumerate(self.rows, start=1):
            self._take(number, row)

    def add(self, name: Name, reply: Reply) -> None:
        """Keep a reply; it is on the disk itself when this returns."""
        key, digest = name
        with self.lock:
            if self.rows is not None:
                self.store.open(self.rows)
                self.rows = None
            self.store.append([{"key": key, "digest": digest, **asdict(reply)}])
            self._count(name, reply)

    def _take(self, number: int, row: bytes) -> None:
        try:
            line = line_of(row)
            name = str(line.pop("key")), str(line.pop("digest"))
            reply = Reply(**line)
            if [type(value) for value in asdict(reply).values()] != [str, int, int, str, str]:
                raise TypeError
        except (ValueError, TypeError, LookupError):
            raise ConfigError(
                f"{self.store.path}: line {number} is not a reply of an endpoint; mend or delete "
                f"the line"
            ) from None
        self._count(name, reply)

    def _count(self, name: Name, reply: Reply) -> None:
        self.replies[name] = reply
        self.spent = self.spent.plus(reply)
