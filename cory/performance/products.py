"""The floor of an iteration: its matrix products alone, and how many operations it consists of.

Every product that is executed is noted with the shapes, layouts and types of its inputs; then each
kind is timed by itself. What an iteration takes beyond that sum is numbers between the products,
and Python and torch between the operations.
"""

import statistics
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from cory.trainers.clock import Clock

aten = torch.ops.aten
PRODUCTS: dict[Any, int] = {  # operation -> how many of its first inputs are those of its products
    aten.mm.default: 2,
    aten.addmm.default: 3,
    aten.bmm.default: 2,
    aten.baddbmm.default: 3,
    aten._scaled_dot_product_flash_attention_for_cpu.default: 3,
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default: 6,
}
REPEATS = 5
ENOUGH = 0.05  # seconds after which a kind of product is not timed again

Layout = tuple[tuple[int, ...], tuple[int, ...], torch.dtype]  # shape, strides, type
Product = tuple[Any, tuple[Layout, ...]]


@dataclass
class Executed:
    """What a phase consists of."""

    products: Counter[Product] = field(default_factory=Counter)
    operations: int = 0  # of all kinds, but those that only look at memory in another shape

    def seconds(self) -> float:
        """How long its products take by themselves, one after the other."""
        return sum(count * alone(*product) for product, count in self.products.items())


class Note(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes every operation that is executed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = Executed()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        inputs = PRODUCTS.get(function)
        if inputs is not None:
            layouts = tuple((tuple(t.shape), t.stride(), t.dtype) for t in args[:inputs])
            self.now.products[function, layouts] += 1
        self.now.operations += not function.is_view
        return function(*args, **(kwargs or {}))


@contextmanager
def executed_by_phase() -> Iterator[dict[str, Executed]]:
    """Note all that runs inside; phases end where a trainer's clock laps.

    yields: phase, as in `time/<phase>` -> what it consists of
    """
    found: dict[str, Executed] = {}
    lap = Clock.lap
    note = Note()

    def noting(clock: Clock, phase: str) -> None:
        whole = found.setdefault(phase, Executed())
        whole.products += note.now.products
        whole.operations += note.now.operations
        note.now = Executed()
        lap(clock, phase)

    with patch.object(Clock, "lap", noting), note:
        yield found


def alone(function: Any, layouts: tuple[Layout, ...]) -> float:
    """Seconds of a product by itself: the median of several, after a first one."""
    inputs = [laid_out(*layout) for layout in layouts]
    seconds: list[float] = []
    more: dict[str, Any] = {}
    if function is aten._scaled_dot_product_flash_attention_for_cpu_backward.default:
        more = {"dropout_p": 0.0, "is_causal": False}
    while len(seconds) < 2 or (len(seconds) <= REPEATS and sum(seconds) < ENOUGH):
        start = time.perf_counter()
        function(*inputs, **more)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])


def laid_out(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Random numbers in memory of this layout; with strides of 0, several in one place."""
    last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    return torch.randn(last + 1).to(dtype).as_strided(shape, strides)
