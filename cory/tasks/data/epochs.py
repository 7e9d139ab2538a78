"""The order of training data over epochs, and how many of the test data are asked for."""

import hashlib
import json
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from cory import distributed
from cory.config import require

PROMPTS = "prompts"  # in a state: hash of the data


class EpochSampler:
    """Draws row numbers 0 to rows - 1, each once per epoch, in an order given by the stream."""

    def __init__(self, rows: int, stream: np.random.Generator, data: str, name: str) -> None:
        """data: `hash_of` the rows, and of those that the run is tested on

        name: of the data, for refusals
        """
        self.rows = rows
        self.stream = stream
        self.data = data
        self.name = name
        self.left: list[int] = []  # rows left of the current epoch, the next one last

    def next(self) -> int:
        """The next row; a new epoch begins after the last one."""
        if not self.left:
            self.left = self.stream.permutation(self.rows).tolist()
        return self.left.pop()

    def state_dict(self) -> dict[str, Any]:
        """The rows left of the current epoch, and whose; the stream's state is saved elsewhere."""
        return {"left": list(self.left), PROMPTS: self.data}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a `state_dict`; ConfigError where it is of other data."""
        require(
            state[PROMPTS] == self.data,
            f"{self.name}: the data are not those that this run began with; put them back, or "
            f"begin a new run",
        )
        self.left = list(state["left"])


def hash_of(rows: Iterable[Any]) -> str:
    """A hash of plain values in their order."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, sort_keys=True).encode())
    return digest.hexdigest()


def at_most(count: int | None, there: int, what: str) -> int | None:
    """The number of prompts that an evaluation asks; a note says where there are fewer.

    what: what they are, as `test questions`
    """
    if count is None or count <= there:
        return count
    _note(f"evaluation.prompts={count}: there are only {there} {what}; all are asked")
    return there


_note = cache(distributed.note)  # once for a process, however often prompts are asked for
