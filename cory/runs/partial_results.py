"""What a run has been answered so far, on disk, so that a killed run keeps it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from cory import distributed
from cory.runs.run_dir import WriteError

Line = dict[str, Any]  # of samples.jsonl


class PartialResults:
    """The lines of one evaluation, or of one iteration's debates, at a time, in their order.

    They come in pieces, each written at once. Every process calls each method; the first one
    reads and writes.
    """

    def __init__(self, folder: Path, digest: str) -> None:
        """digest: of the run's settings; what was found under others is not looked at."""
        self.folder = folder
        self.digest = digest
        self.path = self.folder
        self.lines: list[Line] = []
        self.file: IO[str] | None = None

    def open(self, iteration: int, weights: str, sizes: Sequence[int]) -> list[Line]:
        """Begin with an iteration, or go on with it; the lines found before.

        weights: a name for the weights that answer; those of a run that was resumed on a GPU may
            differ in the last digits, and what others answered is not theirs
        sizes: lines of each piece; pieces that are not there whole are left out
        """
        self.path = self.folder / f"{iteration:06d}.jsonl"
        head = {"settings": self.digest, "weights": weights}
        if distributed.rank() == 0:
            found, whole = _read(self.path, head), 0
            for size in sizes:
                if whole + size > len(found):
                    break
                whole += size
            self.lines = found[:whole]
            self._start(head)
        self.lines = distributed.from_first(self.lines)
        return list(self.lines)

    def add(self, lines: list[Line]) -> None:
        """Keep one more piece; it is on the disk itself when this returns."""
        self.lines += lines
        if self.file is None:
            return
        try:
            self.file.write("".join(map(encoded, lines)))
            self.file.flush()
            os.fsync(self.file.fileno())
        except OSError as error:
            raise self._unwritten(error) from error

    def clear(self) -> None:
        """Forget them: they are in the records now."""
        written = self.file is not None
        self.close()
        if not written:
            return
        self.path.unlink()
        if not any(self.folder.iterdir()):
            self.folder.rmdir()

    def close(self) -> None:
        """Keep the file, and hold its lines no longer."""
        self.lines = []
        if self.file is not None:
            self.file.close()
            self.file = None

    def _start(self, head: Line) -> None:
        """Leave the file with its head and the lines that count, open for more."""
        partial = self.path.with_name(f"{self.path.name}.part")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            text = "".join(map(encoded, [head, *self.lines]))
            partial.write_text(text, encoding="utf-8")
            partial.replace(self.path)
            self.file = self.path.open("a", encoding="utf-8")
        except OSError as error:
            raise self._unwritten(error) from error

    def _unwritten(self, error: OSError) -> WriteError:
        return WriteError(
            f"{self.path} cannot be written ({error.strerror}); the same command goes on with what "
            f"is in it"
        )


def encoded(line: Line) -> str:
    """A line of a .jsonl file."""
    return json.dumps(line, ensure_ascii=False) + "\n"


def _read(path: Path, head: Line) -> list[Line]:
    """The lines after the head; none where the head is another one."""
    found: list[Line] = []
    if path.exists():
        for row in path.read_bytes().splitlines():
            try:
                found.append(json.loads(row))
            except ValueError:  # the last line, when the run was killed while writing it
                break
    if found and found[0] != head:
        print(
            f"note: {path} is of other settings or weights; what it holds is asked for again",
            file=sys.stderr,
        )
        return []
    return found[1:]
