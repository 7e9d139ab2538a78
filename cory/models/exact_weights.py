"""The weights that an optimiser steps on, in float32: how DeepSpeed's optimisers hold them.

They are also what is written of a policy whose optimiser need not be kept.

In half precision, and at ZeRO stages 1 to 3 in float32, too, the weights of the passes are another
set: those of this set, rounded. So this set alone says what the weights are.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cory import distributed
from cory.models.weight_files import load_plain


def exact_weights(optimizer: Any, trainable: Iterable[Tensor]) -> list[Tensor]:
    """This process's part of the weights that are stepped on; flat where a stage splits them.

    optimizer: what `deepspeed.initialize` returned
    trainable: the weights of the passes, which are stepped on themselves at stage 0 in float32
    """
    for name in ("fp32_partitioned_groups_flat", "single_partition_of_fp32_groups"):
        if hasattr(optimizer, name):  # stage 3; stages 1 and 2
            return [part.detach() for part in getattr(optimizer, name)]
    if hasattr(optimizer, "fp32_groups"):  # stage 0 in half precision
        return [weight.detach() for group in optimizer.fp32_groups for weight in group]
    return [weight.detach() for weight in trainable]


@torch.no_grad()
def set_exact_weights(
    optimizer: Any, trainable: Sequence[Tensor], values: Sequence[Tensor]
) -> None:
    """Overwrite the weights that are stepped on, and round those of the passes from them.

    values: as `exact_weights` returns them, in any precision and on any device
    """
    split = hasattr(optimizer, "fp32_partitioned_groups_flat")
    if split:  # small weights, which are kept whole, would be read as they were
        optimizer.checkpoint_event_prologue()
    for own, value in zip(exact_weights(optimizer, trainable), values, strict=True):
        own.copy_(value)
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


def write_parts(path: Path, parts: list[Tensor]) -> None:
    """Write a process's part of the weights; processes that hold the same name the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if distributed.rank() == 0 or not path.stem.endswith("_0"):  # the first one writes for all
        torch.save(parts, path)


def read_parts(path: Path) -> list[Tensor]:
    """What `write_parts` wrote, on the CPU."""
    parts: list[Tensor] = load_plain(path, "cpu")
    return parts
