"""The preallocated cache holds what the library's holds."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache, MistralConfig, MistralForCausalLM

from cory.models.cache import PreallocatedLayer, cache_for


def states(rows: int, tokens: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randn(rows, 3, tokens, 4, generator=generator)
    return keys, torch.randn(rows, 3, tokens, 5, generator=generator)


def test_it_is_the_librarys_without_copies() -> None:
    ours, theirs = PreallocatedLayer(8), DynamicCache().layer_class_to_replicate()
    memory = set()
    for seed, tokens in enumerate((3, 1, 2)):
        new = states(4, tokens, seed)
        assert all(map(torch.equal, ours.update(*new), theirs.update(*new)))
        assert ours.get_seq_length() == theirs.get_seq_length()
        assert ours.get_mask_sizes(1) == theirs.get_mask_sizes(1)
        memory |= {ours.keys.data_ptr(), ours.values.data_ptr()}
    assert len(memory) == 2
    for layer in (ours, theirs):
        layer.batch_select_indices(torch.tensor([2, 0]))
    new = states(2, 2, 9)
    assert all(map(torch.equal, ours.update(*new), theirs.update(*new)))
    assert ours.keys.shape == (2, 3, 8, 4)


def test_more_tokens_than_there_is_room_for_are_refused() -> None:
    layer = PreallocatedLayer(2)
    with pytest.raises(RuntimeError):
        layer.update(*states(1, 3, 0))


@pytest.mark.parametrize("window", [None, 4])
def test_a_models_answers_are_those_with_the_librarys(window: int | None) -> None:
    torch.manual_seed(0)
    sizes = {"vocab_size": 30, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "sliding_window": window}
    lm = MistralForCausalLM(MistralConfig(**sizes, **heads)).eval()
    caches = [cache_for(lm, 10), DynamicCache(config=lm.config)]
    kinds = {type(layer) for layer in caches[0].layers}
    assert (kinds == {PreallocatedLayer}) == (window is None)
    for ids in (torch.arange(12).view(2, 6), *torch.arange(8).view(4, 2, 1)):
        with torch.no_grad():
            ours, theirs = (lm(ids, past_key_values=cache, use_cache=True) for cache in caches)
        assert torch.equal(ours.logits, theirs.logits)
