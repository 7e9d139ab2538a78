"""One engine for several policies with full copies of a model, of which one works at a time.

The engine holds the weights of one policy, with gradients and Adam's moments; each policy's own
weights lie in main memory. It serves policies whose every training begins with a new optimiser.
"""

from __future__ import annotations

from pathlib import Path

import torch

from cory.models.engine import Engine


class StoredWeights:
    """One policy's weights in main memory, from where they are put into the shared engine.

    Every process stores the part that it steps on. In the precision of the passes if every training
    starts from the pretrained weights, else in float32: the bits that rounding drops count then.
    """

    def __init__(self, name: str, engine: Engine) -> None:
        """Takes over the weights that the engine holds now."""
        self.name = name
        self.engine = engine
        self._parts = [
            torch.empty(part.shape, dtype=engine.kept_precision)
            for part in engine.stepped_weights()
        ]
        self._copy_out()

    @property
    def present(self) -> bool:
        """Whether the engine holds these weights now."""
        return self.engine.occupant is self

    def enter(self) -> None:
        """Put these weights into the engine, and its present ones back; every process does it."""
        engine = self.engine
        earlier = engine.occupant
        if earlier is self:
            return
        if earlier is not None and engine.changed:
            earlier._copy_out()
        engine.set_stepped_weights(self._parts)
        engine.model.name = self.name
        engine.changed = False
        engine.occupant = self

    def _copy_out(self) -> None:
        for stored, part in zip(self._parts, self.engine.stepped_weights(), strict=True):
            stored.copy_(part.detach())

    def save(self, folder: Path) -> None:
        """As `Engine.save`."""
        if self.present:
            self._copy_out()
        self.engine.write(folder, self.name, {"weights": self._parts})

    def load(self, folder: Path) -> None:
        """As `Engine.load`."""
        if self.present:
            self.engine.occupant = None
        self._parts = self.engine.read(folder, self.name)["weights"]
