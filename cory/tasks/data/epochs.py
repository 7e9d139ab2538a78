"""Going through training data again and again, each time in a new order."""

from __future__ import annotations

from typing import Any

import numpy as np


class EpochSampler:
    """Row numbers 0 to rows - 1, each once per pass; a function of the stream alone."""

    def __init__(self, rows: int, stream: np.random.Generator) -> None:
        self.rows = rows
        self.stream = stream
        self.left: list[int] = []  # of the present pass, last first

    def next(self) -> int:
        """The next row; a new pass begins when all were given."""
        if not self.left:
            self.left = self.stream.permutation(self.rows).tolist()
        return self.left.pop()

    def state_dict(self) -> dict[str, Any]:
        """What is left of the present pass; the stream keeps its own state."""
        return {"left": list(self.left)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        self.left = list(state["left"])
