"""Floating-point operations of an iteration, counted by phase from the shapes of its products.

What is executed counts, padding and repeated work included: `cory.memory.operations` estimates what
a run needs before it starts. Softmax, norms, sampling and the optimiser's own arithmetic count
nothing; they are a small share of the operations, though not of the time.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from cory.trainers.clock import Clock

aten = torch.ops.aten


products_of_attention: Callable[..., int] = sdpa_flop_count
products_of_its_backward: Callable[..., int] = sdpa_backward_flop_count


def attention_operations(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """Operations of the two products of attention, by their shapes (B, heads, length, width)."""
    return int(products_of_attention(query, key, value))


def attention_backward_operations(
    gradient: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any
) -> int:
    """... and of their backward pass, which computes the scores again."""
    return int(products_of_its_backward(gradient, query, key, value))


# torch's counter knows attention's kernels of CUDA, and takes those of the CPU to cost nothing
ATTENTION_ON_CPU = {
    aten._scaled_dot_product_flash_attention_for_cpu: attention_operations,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: attention_backward_operations,
}


@contextmanager
def operations_by_phase() -> Iterator[dict[str, float]]:
    """Count the operations of all that runs inside; phases end where a trainer's clock laps.

    yields: phase, as in `time/<phase>` -> operations; filled in while it runs, which takes longer
    """
    counter = FlopCounterMode(display=False, custom_mapping=ATTENTION_ON_CPU)
    found: dict[str, float] = {}
    lap = Clock.lap

    def counting(clock: Clock, phase: str) -> None:
        found[phase] = found.get(phase, 0.0) + counter.get_total_flops() - sum(found.values())
        lap(clock, phase)

    with patch.object(Clock, "lap", counting), counter:
        yield found
