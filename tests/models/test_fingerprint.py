from __future__ import annotations

import pytest
import torch

from cory.models import fingerprint
from cory.models.fingerprint import byte_sum


def test_it_is_the_sum_of_all_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "SUMMED_AT_ONCE", 3)  # several pieces, the last one short
    numbers = torch.tensor([[1, 2], [256, -1]], dtype=torch.int16)
    assert byte_sum(numbers) == 1 + 2 + 1 + 255 + 255
    assert byte_sum(numbers.T) == byte_sum(numbers)  # not contiguous


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8])
def test_the_least_step_of_one_weight_changes_it(dtype: torch.dtype) -> None:
    weights = torch.ones(5, 7).to(dtype)
    moved = weights.clone()
    moved[3, 4] += torch.finfo(dtype).eps if dtype.is_floating_point else 1
    assert byte_sum(moved) != byte_sum(weights)
