"""The order of training data over epochs."""

from typing import Any

import numpy as np


class EpochSampler:
    """Draws row numbers 0 to rows - 1, each once per epoch, in an order given by the stream."""

    def __init__(self, rows: int, stream: np.random.Generator) -> None:
        self.rows = rows
        self.stream = stream
        self.left: list[int] = []  # rows left of the current epoch, the next one last

    def next(self) -> int:
        """The next row; a new epoch begins after the last one."""
        if not self.left:
            self.left = self.stream.permutation(self.rows).tolist()
        return self.left.pop()

    def state_dict(self) -> dict[str, Any]:
        """The rows left of the current epoch; the stream's state is saved elsewhere."""
        return {"left": list(self.left)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a `state_dict`."""
        self.left = list(state["left"])
