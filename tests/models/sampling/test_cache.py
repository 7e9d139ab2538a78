"""The preallocated cache holds what the library's holds."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor
from transformers import (
    DynamicCache,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedModel,
)

from cory.models.precision import set_products
from cory.models.sampling import generation, prefill, working_rows
from cory.models.sampling.cache import PreallocatedLayer, cache_for
from tests.models.sampling.test_generation import PLAIN


def states(rows: int, tokens: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randn(rows, 3, tokens, 4, generator=generator)
    return keys, torch.randn(rows, 3, tokens, 5, generator=generator)


@pytest.mark.parametrize("across", [False, True])
def test_it_is_the_librarys_without_copies(across: bool) -> None:
    """In bfloat16, whose keys may lie across."""
    ours, theirs = PreallocatedLayer(8, across), DynamicCache().layer_class_to_replicate()
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


@pytest.mark.parametrize(
    ("attention", "products", "across"),
    [("eager", torch.bfloat16, True), ("eager", torch.float32, False),
     ("sdpa", torch.bfloat16, False)],
)  # fmt: skip
def test_keys_lie_across_for_eager_attention_in_bfloat16_and_tokens_are_the_same(
    attention: str, products: torch.dtype, across: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 2}
    lm = GPT2LMHeadModel(GPT2Config(**sizes, attn_implementation=attention)).eval()
    set_products(lm, products)
    caches: list[DynamicCache] = []

    def noted(model: PreTrainedModel, room: int) -> DynamicCache:
        caches.append(cache_for(model, room))
        return caches[-1]

    monkeypatch.setattr(working_rows, "cache_for", noted)
    monkeypatch.setattr(prefill, "SHARED_AT_LEAST", 10**6)  # the library's shares no beginnings
    uniforms = torch.rand(4, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    contexts = [[*range(17), 30], [*range(17), 4, 5, 6], [*range(18)], [*range(17), 9, 8]]
    said = partial(generation.generate, lm, contexts, 20, PLAIN, uniforms, 0, frozenset({7, 13}))
    found = said()
    assert {layer.keys.stride(2) == 1 for layer in caches[0].layers} == {across}
    monkeypatch.setattr(
        working_rows, "cache_for", lambda model, room: DynamicCache(config=model.config)
    )
    assert said() == found


def test_what_lies_in_unwritten_memory_does_not_matter() -> None:
    keys, values = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5)
    layer = PreallocatedLayer(7)
    layer.update(keys[:, :, :3], values[:, :, :3])
    for memory in layer._memory:
        memory[:, :, 3:] = torch.nan
    place = torch.tensor([3])
    layer.fix(place)
    assert layer.get_seq_length() == 3 and layer.get_mask_sizes(1) == (7, 0)
    found = layer.update(keys[:, :, 3:], values[:, :, 3:])
    for one, whole in zip(found, (keys, values), strict=True):
        assert one.shape == (2, 3, 7, 5)
        assert torch.equal(one[:, :, :4], whole) and not one[:, :, 4:].any()
    place += 1
    assert layer.get_seq_length() == 4
    layer.batch_select_indices(torch.tensor([1, 1]))
    assert torch.equal(layer.keys[:, :, :4], keys[[1, 1]])
