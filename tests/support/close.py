"""The one place that says how close two numbers have to be."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Numbers = Tensor | Sequence[Any] | float


def assert_close(actual: Numbers, expected: Numbers, rtol: float = 1e-5) -> None:
    """Same shape, and equal up to float32 rounding; NaN is equal to nothing.

    rtol: another one where numbers are rounded otherwise, as in bfloat16
    """
    torch.testing.assert_close(
        torch.as_tensor(actual), torch.as_tensor(expected), rtol=rtol, atol=1e-6, check_dtype=False
    )
