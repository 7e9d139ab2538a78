"""The processes of a run, and how they share work.

Every process holds the whole roll-out: prompts, turns, statistics. Only the models' passes are
split between processes, by rows, and their results are gathered. So sampling, credit, advantages
and metrics are computed alike everywhere, and the number of processes changes nothing but rounding.
"""

import asyncio
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

import torch.distributed as dist
from torch import Tensor
from tqdm import tqdm

from cory.config import ConfigError

BEAT_S = 10.0  # seconds: the processes meet at least this often while the first one works
R = TypeVar("R")
T = TypeVar("T")


def count() -> int:
    """Processes on all nodes; 1 before a process group is joined."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """The number of this process, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def own_rows(rows: int) -> slice:
    """This process's share of `rows` rows; shares differ by one row at most."""
    return slice(rows * rank() // count(), rows * (rank() + 1) // count())


def gathered(own: list[T]) -> list[T]:
    """The lists of all processes, one after another in the order of their ranks."""
    if count() == 1:
        return own
    lists: list[list[T]] = [[] for _ in range(count())]
    dist.all_gather_object(lists, own)
    return [item for part in lists for item in part]


def map_rows(
    rows: Sequence[R],
    size: int,
    function: Callable[[Sequence[R]], Iterable[T]],
    length: Callable[[R], int] | None = None,
) -> list[T]:
    """The result of `function` for every row, in order, in every process.

    Each process computes its own share of the rows, and gets the others' results from them.

    size: rows that `function` gets at once
    function: rows -> a result for each; of a tensor in main memory, each entry of its first
        dimension is one
    length: of a row; those of similar length are then computed at once, with less padding
    """
    own: Sequence[int] = range(len(rows))[own_rows(len(rows))]
    if length is not None:
        own = sorted(own, key=lambda number: length(rows[number]))
    batches = [own[start : start + size] for start in range(0, len(own), size)]
    computed = [(batch, function([rows[number] for number in batch])) for batch in batches]
    results = {
        number: result
        for batch, found in gathered(computed)
        for number, result in zip(batch, found, strict=True)
    }
    return [results[number] for number in range(len(rows))]


def summed(numbers: Tensor) -> Tensor:
    """Sum over processes, element by element."""
    if count() > 1:
        dist.all_reduce(numbers)
    return numbers


def largest(number: Tensor) -> int:
    """The largest of all processes' numbers, each a scalar; a collective."""
    if count() > 1:
        dist.all_reduce(number, op=dist.ReduceOp.MAX)
    return int(number)


def from_first(value: T) -> T:
    """The first process's value; that of the others is ignored."""
    if count() == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box)
    return box[0]


def first_works(function: Callable[[], T]) -> T:
    """What the function returns in the first process, in every process, however long it takes.

    Meanwhile the processes meet, since a collective that waits for some ten minutes ends the run.
    Where it raises, the others raise a ConfigError of the same text, or a RuntimeError with the
    first one's traceback.
    """
    if count() == 1:
        return function()
    if rank() == 0:
        with ThreadPoolExecutor(1) as thread:
            future = thread.submit(function)
            while not from_first(not wait([future], timeout=BEAT_S).not_done):
                pass
        error = future.exception()
        if error is None:
            return from_first((future.result(), None))[0]
        known = isinstance(error, ConfigError)
        kind = type(error) if known else RuntimeError
        text = str(error) if known else "".join(traceback.format_exception(error))
        from_first((None, kind(text)))
        raise error
    while not from_first(True):
        pass
    given: tuple[Any, Exception | None] = from_first((None, None))
    value, error = given
    if error is not None:
        raise error
    result: T = value
    return result


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; in a thread where a loop runs already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def note(text: str) -> None:
    """Say something that the user should know, once, however many processes there are."""
    if rank() == 0:
        tqdm.write(f"note: {text}", file=sys.stderr)  # above a bar, where one moves


def any_of(flag: bool) -> bool:
    """Whether the flag is set in any process."""
    return any(gathered([flag]))


def wait_for_all() -> None:
    """Return once every process has called this."""
    if count() > 1:
        dist.barrier()
