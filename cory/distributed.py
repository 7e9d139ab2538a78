"""The processes of a run, and how they share work.

Every process holds the whole roll-out: prompts, turns, statistics. Only passes of models are shared
out, by rows, and their outcome is put together again. So sampling, credit, advantages and metrics
are computed alike everywhere, and the number of processes changes nothing but rounding.
"""

from __future__ import annotations

from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

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


def gathered_rows(own: Tensor) -> Tensor:
    """The rows of all processes, one below another in the order of their ranks.

    own: (n, ...), n may differ between processes
    """
    if count() == 1:
        return own
    return torch.cat(gathered([own.cpu()])).to(own.device)


def summed(numbers: Tensor) -> Tensor:
    """Sum over processes, element by element."""
    if count() > 1:
        dist.all_reduce(numbers)
    return numbers


def from_first(value: T) -> T:
    """What the first process has; the others' value is not looked at."""
    if count() == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box)
    return box[0]


def any_of(flag: bool) -> bool:
    """Whether the flag is set in any process."""
    return any(gathered([flag]))


def wait_for_all() -> None:
    """Return once every process has come here."""
    if count() > 1:
        dist.barrier()
