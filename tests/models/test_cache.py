"""The preallocated cache holds what the library's holds."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import (
    DynamicCache,
)

from cory.models.passes import RoomyLayer


def states(rows: int, tokens: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randn(rows, 3, tokens, 4, generator=generator)
    return keys, torch.randn(rows, 3, tokens, 5, generator=generator)


@pytest.mark.parametrize("across", [False, True])
def test_it_is_the_librarys_without_copies(across: bool) -> None:
    """In bfloat16, whose keys may lie across."""
    ours, theirs = RoomyLayer(8, across), DynamicCache().layer_class_to_replicate()
    memory = set()
    for seed, tokens in enumerate((3, 1, 2)):
        new = tuple(t.bfloat16() for t in states(4, tokens, seed))
        assert all(map(torch.equal, ours.update(*new), theirs.update(*new)))
        assert ours.get_seq_length() == theirs.get_seq_length()
        assert ours.get_mask_sizes(1) == theirs.get_mask_sizes(1)
        memory |= {ours.keys.data_ptr(), ours.values.data_ptr()}
    assert len(memory) == 2
    for layer in (ours, theirs):
        layer.batch_select_indices(torch.tensor([2, 0]))
    assert (ours.keys.stride(2) == 1) == across
    new = tuple(t.bfloat16() for t in states(2, 2, 9))
    found = ours.update(*new)
    assert all(map(torch.equal, found, theirs.update(*new)))
    assert found[0].stride(3) == 1  # many queries read them token by token
    assert ours.keys.shape == (2, 3, 8, 4) and (ours.keys.stride(2) == 1) == across
