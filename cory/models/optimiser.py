"""The optimisers that an engine can step with, and the weights that they step on, in float32.

In half precision, and at ZeRO stages 1 to 3 in float32, too, the weights of the passes are another
set: those of this set, rounded. So this set alone says what the weights are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import Parameter

from cory.config import OptimiserConfig
from cory.models.actor_critic import is_of_head

if TYPE_CHECKING:
    from cory.models.engine import Engine

# of bitsandbytes: which number each code of an 8-bit moment stands for; the same in every state
CODES = ("qmap1", "qmap2")


def rate_groups(
    trainable: Mapping[str, Parameter], settings: OptimiserConfig
) -> list[tuple[float, list[Parameter]]]:
    """Weights that share a learning rate, behind its multiple of `algorithm.learning_rate`.

    trainable: weights by name. The value head's are apart only where its rate is its own.
    """
    factor = settings.value_rate_factor()
    if factor == 1.0:
        return [(1.0, list(trainable.values()))]
    head = [weight for name, weight in trainable.items() if is_of_head(name)]
    rest = [weight for name, weight in trainable.items() if not is_of_head(name)]
    return [(1.0, rest), (factor, head)]


def new_optimiser(groups: Sequence[Sequence[Parameter]], settings: OptimiserConfig) -> Any:
    """AdamW over groups of weights: torch's, or bitsandbytes' with both moments in 8 bits.

    The latter (Dettmers et al., 2022) keeps moments of fewer than 4,096 elements in 32 bits.
    """
    weights = [{"params": list(group)} for group in groups]
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.optimizer == "adamw_8bit":
        from bitsandbytes.optim import AdamW8bit  # noqa: PLC0415  three seconds, and seldom needed

        return AdamW8bit(weights, lr=rate, weight_decay=decay)
    # fused: one pass over the weights instead of one per operation
    return torch.optim.AdamW(weights, lr=rate, weight_decay=decay, fused=True)


def moments_to_zero(state: dict[str, Any]) -> None:
    """Bring one weight's state to what it is before the first step.

    8-bit moments are codes times a scale for each block: with all scales at 0 they are 0.
    """
    for name, value in state.items():
        if not isinstance(value, Tensor):
            state[name] = 0  # bitsandbytes counts steps in a plain number
        elif name not in CODES:
            value.zero_()


def stepped_weights(optimizer: Any, trainable: Iterable[Tensor]) -> list[Tensor]:
    """This process's part of the weights that are stepped on; flat where a stage splits them.

    optimizer: what `deepspeed.initialize` returned
    trainable: the weights of the passes, which are stepped on themselves at stage 0 in float32
    """
    for name in ("fp32_partitioned_groups_flat", "single_partition_of_fp32_groups"):
        if hasattr(optimizer, name):  # stage 3; stages 1 and 2
            return list(getattr(optimizer, name))
    if hasattr(optimizer, "fp32_groups"):  # stage 0 in half precision
        return [weight for group in optimizer.fp32_groups for weight in group]
    return list(trainable)


@torch.no_grad()
def set_stepped_weights(
    optimizer: Any, trainable: Sequence[Tensor], values: Sequence[Tensor]
) -> None:
    """Overwrite the weights that are stepped on, and round those of the passes from them.

    values: as `stepped_weights` returns them, in any precision and on any device
    """
    split = hasattr(optimizer, "fp32_partitioned_groups_flat")
    if split:  # small weights, which are kept whole, would be read as they were
        optimizer.checkpoint_event_prologue()
    for weight, value in zip(stepped_weights(optimizer, trainable), values, strict=True):
        weight.copy_(value)
    if split:
        for number in range(len(values)):
            optimizer._reassign_or_swap_out_partitioned_parameters(number)
        optimizer.checkpoint_event_epilogue()  # puts these together again
    elif hasattr(optimizer, "single_partition_of_fp32_groups"):
        optimizer.update_lp_params()
    elif hasattr(optimizer, "fp32_groups"):
        for exact, rounded in zip(optimizer.fp32_groups, optimizer.fp16_groups, strict=True):
            for one, other in zip(exact, rounded, strict=True):
                other.data.copy_(one.data)


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
