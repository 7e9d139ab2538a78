"""Lines that take long to make and are kept batch by batch, so that a killed run keeps them."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from cory import distributed
from cory.runs.jsonl import JsonlStore, Line, decoded

ADVICE = "; the same command goes on with what is in it"


def resumable(
    path: Path,
    weights: str,
    count: int,
    size: int,
    *,
    answer: Callable[[range], list[Line]],
    skip: Callable[[range], object],
    before_each: Callable[[int, int], None],
) -> list[Line]:
    """The lines of all rows; those that the file holds are not made again. Every process calls it.

    weights: fingerprint of the weights that answer; what others answered is not theirs (those of a
        run that was resumed on a GPU may differ in the last digits)
    count: rows in all
    size: rows of a batch, at most
    answer(rows): makes the lines of a batch; they are on the disk before the next one is made
    skip(rows): called instead where they are there; draws their random numbers, so that later rows
        get the numbers that they would have got
    before_each(rows so far, rows in all): called before a batch is answered; what it raises ends
        the work, with all batches so far on the disk
    """
    batches = [range(start, min(start + size, count)) for start in range(0, count, size)]
    store, lines = None, []
    if distributed.rank() == 0:
        store = JsonlStore(path, ADVICE)
        lines = begin(store, {"weights": weights}, batches)
    lines = distributed.from_first(lines)
    kept = len(lines)
    for rows in batches:
        if rows.stop <= kept:
            skip(rows)
            continue
        before_each(len(lines), count)
        made = answer(rows)
        if store is not None:
            store.append(made)
        lines += made
    if store is not None:
        store.close()
    return lines


def begin(store: JsonlStore, head: Line, batches: Sequence[range]) -> list[Line]:
    """Open a file behind the whole batches that it holds; their lines.

    head: its first line; a file with another one begins anew
    """
    rows, _ = store.read()
    values = decoded(rows)
    if values[:1] != [head]:
        if rows:
            print(f"note: {store.path} is of other weights and made again", file=sys.stderr)
        store.open([])
        store.append([head])
        return []
    end = max((batch.stop for batch in batches if batch.stop < len(values)), default=0)
    store.open(rows[: 1 + end])
    return values[1 : 1 + end]
