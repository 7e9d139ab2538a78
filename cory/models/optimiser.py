"""The optimisers that an engine can step with, and weights that take turns in one engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import Parameter

from cory.config import OptimiserConfig
from cory.models.actor_critic import is_of_head

if TYPE_CHECKING:
    from cory.models.engine import Engine

# of bitsandbytes: which number each code of an 8-bit moment stands for; the same in every state
CODES = ("qmap1", "qmap2")


def new_optimiser(trainable: Mapping[str, Parameter], settings: OptimiserConfig) -> Any:
    """AdamW: torch's, or bitsandbytes' with both moments in 8 bits.

    The latter (Dettmers et al., 2022) keeps moments of fewer than 4,096 elements in 32 bits.

    trainable: weights by name. Those of a value head with a rate of its own are a group apart; each
        group has its multiple of `algorithm.learning_rate`, `factor`.
    """
    factor = settings.value_rate_factor()
    groups: list[dict[str, Any]] = [{"params": list(trainable.values()), "factor": 1.0}]
    if factor != 1.0:
        head = [weight for name, weight in trainable.items() if is_of_head(name)]
        rest = [weight for name, weight in trainable.items() if not is_of_head(name)]
        groups = [{"params": rest, "factor": 1.0}, {"params": head, "factor": factor}]
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.optimizer == "adamw_8bit":
        from bitsandbytes.optim import AdamW8bit  # noqa: PLC0415  three seconds, and seldom needed

        return AdamW8bit(groups, lr=rate, weight_decay=decay)
    # fused: one pass over the weights instead of one per operation
    return torch.optim.AdamW(groups, lr=rate, weight_decay=decay, fused=True)


class StoredWeights:
    """One of several policies' weights in main memory, put into the engine that all of them use.

    The engine holds one policy's full copy of a model at a time, with gradients and Adam's moments.
    It serves policies whose every training begins with a new optimiser. Every process stores
    the part that it steps on: in the precision of the passes if every training starts from the
    pretrained weights, else in float32: the bits that rounding drops count then.
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
