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
