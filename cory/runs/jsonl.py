"""Files of JSON lines that are appended to and survive a kill at any moment."""

import contextlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

from cory.runs.durable import sync
from cory.runs.run_dir import WriteError, line_of

Line = dict[str, Any]


class JsonlStore:
    """A .jsonl file that one thread at a time appends whole lines to.

    A kill may leave the last line torn: `read` keeps it apart and `open` cuts it off.
    """

    def __init__(self, path: Path, advice: str = "", sync_each: bool = True) -> None:
        """advice: what a WriteError says after its reason
        sync_each: lines are on the disk itself when `append` returns; else when `sync` does
        """
        self.path = path
        self.advice = advice
        self.sync_each = sync_each
        self._file: IO[bytes] | None = None
        self._error: OSError | None = None  # the first failure to write

    def read(self) -> tuple[list[bytes], bytes]:
        """The whole lines, none where there is no file; and what a kill left of another one."""
        try:
            content = self.path.read_bytes() if self.path.exists() else b""
        except OSError as error:
            raise self._unwritten(error) from error
        whole, newline, torn = content.rpartition(b"\n")
        return (whole + newline).splitlines(), torn

    def open(self, rows: Sequence[bytes]) -> None:
        """Cut the file back to some of the lines that it has, in one step, and append after them.

        rows: of `read`
        """
        kept = b"".join(row + b"\n" for row in rows)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.exists() and self.path.stat().st_size != len(kept):
                partial = self.path.with_name(f"{self.path.name}.part")
                with partial.open("wb") as file:
                    file.write(kept)
                    file.flush()
                    os.fsync(file.fileno())
                partial.replace(self.path)
            self._file = self.path.open("ab")
            sync(self.path.parent)  # that the file is there
        except OSError as error:
            raise self._unwritten(error) from error

    @property
    def size(self) -> int:
        """Bytes of all lines so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    def append(self, lines: Iterable[Line]) -> None:
        """Write lines at the end; after a failure nothing more, as a torn line may be there."""
        data = "".join(map(encoded, lines)).encode("utf-8")
        assert self._file is not None, "open comes first"
        if self._error is not None:
            raise self._unwritten(self._error)
        try:
            self._file.write(data)
            self._file.flush()
            if self.sync_each:
                os.fsync(self._file.fileno())
        except OSError as error:
            self._error = error
            raise self._unwritten(error) from error

    def sync(self) -> None:
        """Return once every line is on the disk itself."""
        if self._file is None:
            return
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            self._error = error
            raise self._unwritten(error) from error

    def close(self) -> None:
        """Append no more."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # a full disk was reported when it was written to
                self._file.close()
            self._file = None

    def _unwritten(self, error: OSError) -> WriteError:
        return unwritten(self.path, error, self.advice)


def unwritten(path: Path, error: OSError, advice: str) -> WriteError:
    """A failure to write a file, in one line."""
    return WriteError(f"{path} cannot be written ({error.strerror}){advice}")


def encoded(line: Line) -> str:
    """A line of a .jsonl file."""
    return json.dumps(line, ensure_ascii=False) + "\n"


def decoded(rows: Iterable[bytes]) -> list[Line]:
    """The values of lines, up to the first line that is damaged."""
    values = []
    for row in rows:
        try:
            values.append(line_of(row))
        except ValueError:
            break
    return values
