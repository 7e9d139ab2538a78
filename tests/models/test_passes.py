"""Contexts are read once: equal ones, and what all begin with; the cache holds the library's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import (
    DynamicCache,
    PreTrainedModel,
)

from cory.models.passes import RoomyLayer, Route, cache_for, prefill
from tests.support.close import assert_close

RULES = list(range(100, 120))  # 20 tokens
CASES = {
    # contexts -> (rows, tokens) of each pass
    "all differ": ([[5, 9, 40], [7], [11, 12]], [(3, 3)]),
    "all equal": ([[5, 9]] * 4, [(1, 2)]),
    "both": ([[*RULES, 5], [*RULES, 7, 8], [*RULES, 5]], [(1, 20), (2, 2)]),
    "one is the beginning of the others": ([RULES, [*RULES, 7, 8]], [(1, 19), (2, 3)]),
    "a short common beginning": ([[*RULES[:15], 5], [*RULES[:15], 7]], [(2, 16)]),
}


@pytest.mark.parametrize("case", CASES)
def test_each_context_is_read_once_and_gives_what_it_gives_alone(
    model: PreTrainedModel, case: str
) -> None:
    contexts, expected = CASES[case]
    passes: list[tuple[int, ...]] = []
    note = lambda module, args, kwargs: passes.append(tuple(kwargs["input_ids"].shape))  # noqa: E731
    handle = model.base_model.register_forward_pre_hook(note, with_kwargs=True)
    cache = cache_for(model, 30)
    with torch.no_grad():
        states, mask = prefill(model, contexts, cache, 0, Route([""] * len(contexts)))
    handle.remove()
    assert passes == expected
    assert mask.sum(1).tolist() == [len(row) for row in contexts] and mask[:, -1].all()
    assert cache.get_seq_length() == mask.shape[1]
    for row, context in enumerate(contexts):
        with torch.no_grad():
            alone = model.base_model(torch.tensor([context]), use_cache=True)
        assert_close(states[row, 0], alone.last_hidden_state[0, -1], 1e-4)
        for layer, own in zip(cache.layers, alone.past_key_values.layers, strict=True):
            assert_close(layer.keys[row][:, mask[row]], own.keys[0], 1e-4)
            assert_close(layer.values[row][:, mask[row]], own.values[0], 1e-4)


def states(rows: int, tokens: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randn(rows, 3, tokens, 4, generator=generator)
    return keys, torch.randn(rows, 3, tokens, 5, generator=generator)


def test_the_cache_is_the_librarys_without_copies() -> None:
    """In bfloat16, whose keys lie across."""
    ours, theirs = RoomyLayer(8, across=True), DynamicCache().layer_class_to_replicate()
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
    assert ours.keys.stride(2) == 1
    new = tuple(t.bfloat16() for t in states(2, 2, 9))
    found = ours.update(*new)
    assert all(map(torch.equal, found, theirs.update(*new)))
    assert found[0].stride(3) == 1  # many queries read them token by token
    assert ours.keys.shape == (2, 3, 8, 4) and ours.keys.stride(2) == 1
