"""Every reply of a chat model that was paid for, on disk, so that no run pays for it twice."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cory.config import ConfigError
from cory.endpoint.client import Reply
from cory.runs.partial_results import encoded
from cory.runs.run_dir import WriteError

Name = tuple[str, str]  # of a request: its key, and a digest of what was asked and how


@dataclass(frozen=True)
class Spent:
    """What replies have taken."""

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
    """Replies by the names of their requests, a line of a .jsonl file each."""

    def __init__(self, path: Path) -> None:
        """Go on with what the file holds; a line that a killed run left torn is cut off."""
        self.path = path
        self.replies: dict[Name, Reply] = {}
        self.spent = Spent()
        self.lock = threading.Lock()
        self.error: OSError | None = None  # what went wrong with writing, once something has
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.file = path.open("a+b")
            self.file.seek(0)
            whole, newline, _ = self.file.read().rpartition(b"\n")
            self.file.truncate(len(whole + newline))
        except OSError as error:
            raise self._unwritten(error) from error
        for number, row in enumerate(whole.splitlines(), start=1):
            self._take(number, row)

    def add(self, name: Name, reply: Reply) -> None:
        """Keep a reply; it is on the disk itself when this returns."""
        key, digest = name
        line = encoded({"key": key, "digest": digest, **asdict(reply)})
        with self.lock:
            if self.error is not None:  # a part of a line may lie at the end
                raise self._unwritten(self.error)
            try:
                self.file.write(line.encode("utf-8"))
                self.file.flush()
                os.fsync(self.file.fileno())
            except OSError as error:
                self.error = error
                raise self._unwritten(error) from error
            self._count(name, reply)

    def _take(self, number: int, row: bytes) -> None:
        try:
            line = json.loads(row)
            name = str(line.pop("key")), str(line.pop("digest"))
            reply = Reply(**line)
        except (ValueError, TypeError, LookupError, AttributeError):
            raise ConfigError(
                f"{self.path}: line {number} is not a reply of an endpoint; mend or delete the line"
            ) from None
        self._count(name, reply)

    def _count(self, name: Name, reply: Reply) -> None:
        self.replies[name] = reply
        self.spent = self.spent.plus(reply)

    def _unwritten(self, error: OSError) -> WriteError:
        return WriteError(f"{self.path} cannot be written ({error.strerror})")
