"""Results of an unfinished evaluation or data collection, so that a killed run keeps them."""

import sys
from collections.abc import Callable, Iterator, Sequence, Sized
from pathlib import Path
from typing import TypeVar

from cory import distributed
from cory.runs.jsonl import JsonlStore, Line, decoded

ADVICE = "; the same command goes on with what is in it"
G = TypeVar("G", bound=Sized)


class PartialResults:
    """The lines of one evaluation, or of one iteration's debates, batch by batch.

    Every process calls each method; the first one reads and writes.
    """

    def __init__(self, folder: Path, digest: str) -> None:
        """digest: of the run's settings; lines of other settings are not used."""
        self.folder = folder
        self.digest = digest
        self.lines: list[Line] = []  # as of samples.jsonl
        self.store: JsonlStore | None = None  # in the first process, while it is open

    def open(self, iteration: int, weights: str, sizes: Sequence[int]) -> list[Line]:
        """Begin the results of an iteration, or go on with them; the lines found before.

        weights: fingerprint of the weights that answer; those of a run that was resumed on a GPU
            may differ in the last digits, and what others answered is not theirs
        sizes: lines of each batch; batches that are not there whole are left out
        """
        if distributed.rank() == 0:
            store = JsonlStore(file_of(self.folder, iteration), ADVICE)
            self.lines, kept = self._sound(store, weights, sizes)
            store.open(kept)
            if not kept:
                store.append([{"settings": self.digest, "weights": weights}])
            self.store = store
        self.lines = distributed.from_first(self.lines)
        return list(self.lines)

    def _sound(
        self, store: JsonlStore, weights: str, sizes: Sequence[int]
    ) -> tuple[list[Line], list[bytes]]:
        """The lines of whole batches, and all rows of the file up to there."""
        rows, _ = store.read()
        found = decoded(rows)
        if found[:1] != [{"settings": self.digest, "weights": weights}]:
            if rows:
                print(
                    f"note: {store.path} is of other settings or weights; what it holds is asked "
                    f"for again",
                    file=sys.stderr,
                )
            return [], []
        end = 1
        for size in sizes:
            if end + size > len(found):
                break
            end += size
        return found[1:end], rows[:end]

    def add(self, lines: list[Line]) -> None:
        """Keep one more batch; it is on the disk itself when this returns."""
        self.lines += lines
        if self.store is not None:
            self.store.append(lines)

    def clear(self) -> None:
        """Remove the file: its lines are in the records now."""
        store = self.store
        self.close()
        if store is not None:
            self._remove(store.path)

    def remove(self, iteration: int) -> None:
        """Remove the file of an iteration that is closed, if there is one."""
        path = file_of(self.folder, iteration)
        if distributed.rank() == 0 and path.exists():
            self._remove(path)

    def _remove(self, path: Path) -> None:
        path.unlink()
        if not any(self.folder.iterdir()):
            self.folder.rmdir()

    def close(self) -> None:
        """Keep the file, and hold its lines no longer."""
        self.lines = []
        if self.store is not None:
            self.store.close()
            self.store = None


def file_of(folder: Path, iteration: int) -> Path:
    """The file of an iteration's results."""
    return folder / f"{iteration:06d}.jsonl"


def resumable(
    results: PartialResults,
    iteration: int,
    weights: str,
    groups: Sequence[G],
    size: int,
    *,
    answer: Callable[[G, range], list[Line]],
    skip: Callable[[G, range], object],
    before_each: Callable[[int, int], None],
) -> Iterator[tuple[G, list[Line]]]:
    """The lines of all rows, batch by batch, each with its group; those on disk are not made again.

    weights: fingerprint of the weights that answer
    groups: rows that are answered alike; no batch has rows of two groups
    size: rows of a batch, at most
    answer(group, rows): makes the lines of a batch
    skip(group, rows): called instead where they are on disk; draws their random numbers, so that
        later rows get the numbers that they would have got
    before_each(rows so far, rows in all): called before a batch is answered; what it raises ends
        the work, with all batches so far on disk
    """
    batches = [
        (group, range(start, min(start + size, len(group))))
        for group in groups
        for start in range(0, len(group), size)
    ]
    found = results.open(iteration, weights, [len(rows) for _, rows in batches])
    done, total = 0, sum(map(len, groups))
    for group, rows in batches:
        if done < len(found):
            lines = found[done : done + len(rows)]
            skip(group, rows)
        else:
            before_each(done, total)
            lines = answer(group, rows)
            results.add(lines)
        yield group, lines
        done += len(rows)
