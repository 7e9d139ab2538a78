"""Attention over a few rows at once: in bfloat16 the same bits as over all of them."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
)

from cory.models import actor_critic
from cory.models.actor_critic import BY_ROWS, response_states, set_products

IDS = torch.arange(5 * 12).view(5, 12) % 50
PAIRS = 4 * 4 * 11 * 11  # bytes of a row: 4 heads, 11 tokens; the last one is not read


def gpt2(dropout: float = 0.0) -> PreTrainedModel:
    sizes = {"vocab_size": 50, "n_positions": 32, "n_embd": 64, "n_layer": 2, "n_head": 4}
    rates = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": dropout}
    return GPT2LMHeadModel(GPT2Config(**sizes, **rates, attn_implementation="eager"))


def llama(attention: str = "eager") -> PreTrainedModel:
    sizes = {"vocab_size": 50, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    return LlamaForCausalLM(LlamaConfig(**sizes, **heads, attn_implementation=attention))


def passed(lm: PreTrainedModel) -> list[Tensor]:
    """States of a pass, and the gradients of the weights; the rows have 12, 11 ... 8 tokens."""
    mask = torch.ones_like(IDS, dtype=torch.bool)
    for row in range(len(IDS)):
        mask[row, :row] = False
    states = response_states(lm, IDS, mask, torch.ones(5, 6, dtype=torch.bool))
    lm.zero_grad()
    states.square().sum().backward()
    return [states.detach(), *(p.grad.clone() for p in lm.base_model.parameters())]


@pytest.mark.parametrize("make", [gpt2, llama])
@pytest.mark.parametrize(("at_once", "parts"), [(2, 3), (5, 1)])
def test_parts_give_the_bits_of_the_whole(
    make: Callable[[], PreTrainedModel],
    at_once: int,
    parts: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    lm = make().eval()
    lm.product_dtype = torch.bfloat16
    whole = passed(lm)
    set_products(lm, torch.bfloat16)
    assert lm.config._attn_implementation == BY_ROWS
    calls: list[int] = []
    module = sys.modules[type(lm).__module__]
    own = module.eager_attention_forward

    def counted(module: object, query: Tensor, *more: object, **named: object) -> object:
        calls.append(len(query))
        return own(module, query, *more, **named)

    monkeypatch.setattr(module, "eager_attention_forward", counted)
    monkeypatch.setattr(actor_critic, "PART_BYTES", at_once * PAIRS)
    assert all(map(torch.equal, passed(lm), whole))
    assert len(calls) == 2 * parts and sum(calls) == 2 * 5 and max(calls) == at_once


def test_dropout_is_drawn_for_all_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    lm = gpt2(dropout=0.5).train()
    torch.manual_seed(1)
    whole = passed(lm)
    lm.set_attn_implementation(BY_ROWS)
    monkeypatch.setattr(actor_critic, "PART_BYTES", PAIRS)
    torch.manual_seed(1)
    assert all(map(torch.equal, passed(lm), whole))
