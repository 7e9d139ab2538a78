"""Seconds of an update by part of the model."""

from __future__ import annotations

import time

import pytest
import torch
from torch import Tensor, nn

from cory.performance.module_times import OPTIMISER, REST, WEIGHTS, part_of, seconds_by_part


class Sleep(torch.autograd.Function):
    """Takes its time, forward and backward."""

    @staticmethod
    def forward(ctx, value: Tensor, there: float, back: float) -> Tensor:  # type: ignore[no-untyped-def, override]
        ctx.back = back
        time.sleep(there)
        return value.clone()

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[no-untyped-def, override]
        time.sleep(ctx.back)
        return gradient, None, None


class Part(nn.Module):
    def __init__(self, there: float, back: float) -> None:
        super().__init__()
        self.there, self.back = there, back

    def forward(self, value: Tensor) -> Tensor:
        slept: Tensor = Sleep.apply(value, self.there, self.back)
        return slept


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn, self.mlp, self.ln_1 = Part(0.2, 0.4), Part(0.3, 0.1), nn.LayerNorm(4)
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, value: Tensor) -> Tensor:
        result: Tensor = self.mlp(self.attn(self.ln_1(value * self.weight)))
        return result

    def outside(self) -> None:
        time.sleep(0.25)


@pytest.mark.slow
def test_both_ways_count_for_the_part_that_they_belong_to() -> None:
    block = Block()
    optimiser = torch.optim.SGD(block.parameters(), lr=0.1)

    def work() -> None:
        block(torch.ones(2, 4)).sum().backward()
        optimiser.step()
        block.outside()

    found = seconds_by_part(block, work, {"outside": (block, "outside")})
    assert found["attention"] == pytest.approx(0.6, abs=0.1)
    assert found["MLP"] == pytest.approx(0.4, abs=0.1)
    assert found["outside"] == pytest.approx(0.25, abs=0.1)
    assert found[OPTIMISER] > 0 and found[WEIGHTS] > 0 and found["norms"] > 0
    assert found["norms"] + found[OPTIMISER] + found[WEIGHTS] + found.get(REST, 0) < 0.2
    assert not block.attn._forward_pre_hooks and not block.attn._forward_hooks


def test_parts_of_the_architectures_that_are_benchmarked() -> None:
    parts = {
        "lm.transformer.h.0.attn": "attention",
        "lm.transformer.h.0.attn.c_attn": None,
        "lm.transformer.h.0.mlp": "MLP",
        "lm.transformer.h.0.ln_1": "norms",
        "lm.transformer.ln_f": "norms",
        "lm.transformer.wte": "embeddings",
        "lm.lm_head": "output head",
        "lm.model.layers.3.self_attn": "attention",
        "lm.model.layers.3.self_attn.q_proj": None,
        "lm.model.layers.3.post_attention_layernorm": "norms",
        "lm.model.norm": "norms",
        "lm.model.embed_tokens": "embeddings",
        "value_head": None,
    }
    assert {name: part_of(name) for name in parts} == parts
