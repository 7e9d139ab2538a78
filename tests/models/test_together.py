"""Several adapters of one base in the same passes: each row has its own adapter, or none."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from cory.config import AdapterConfig
from cory.models.actor_critic import set_products
from cory.models.generation import Response, generate
from cory.models.lora import SharedBase
from tests.models.test_generation import PLAIN, uniforms
from tests.support.close import assert_close

RULES = list(range(100, 120))
# of each adapter: one has a lower rank, one lies on other layers, two begin with rules of their own
CONTEXTS = {
    "x": [[*RULES, 5], [*RULES, 7, 8], [*RULES, 5], [*RULES, 9]],
    "y": [[*RULES, 5], [*RULES, 7, 8], [*RULES, 5], [*RULES, 9]],
    "z": [[30, *RULES[2:], 5], [30, *RULES[2:], 7, 8]],
    "": [[*RULES, 5]],
}
ROWS = [(name, row) for row in range(4) for name in CONTEXTS if row < len(CONTEXTS[name])]
OF, TOKENS = [name for name, _ in ROWS], [CONTEXTS[name][row] for name, row in ROWS]


@pytest.fixture(scope="module")
def base(model: PreTrainedModel) -> SharedBase:
    settings = {
        name: AdapterConfig(rank=rank, alpha=8, dropout=0.5, targets=targets)
        for name, rank, targets in (
            ("x", 4, ["c_attn"]),
            ("y", 2, ["c_attn"]),
            ("z", 4, ["c_attn", "c_fc"]),
        )
    }
    base = SharedBase(copy.deepcopy(model), settings, {"x": 0, "y": 1, "z": 2})
    noise = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in base.lm.named_parameters():
            if "lora_B" in name:
                weight.copy_(torch.randn(weight.shape, generator=noise))
    base.lm.eval()
    return base


@pytest.fixture
def noise() -> torch.Tensor:
    return uniforms(len(ROWS), seed=3)


def alone(base: SharedBase, name: str, noise: torch.Tensor, stops: set[int]) -> list[Response]:
    """What an adapter says by itself."""
    own = [row for row, of in enumerate(OF) if of == name]
    contexts = [TOKENS[row] for row in own]
    base.peft.set_adapter(name or "x")
    if not name:
        with base.reference("x"):
            return generate(base.lm, contexts, 8, PLAIN, noise[own], 0, stops)
    return generate(base.lm, contexts, 8, PLAIN, noise[own], 0, stops)


@pytest.mark.parametrize("recorded", [False, True])
def test_a_row_says_what_its_adapter_says_alone(
    base: SharedBase, noise: torch.Tensor, recorded: bool
) -> None:
    """Also where rows end early and are dropped; each adapter reads its own contexts once."""
    free = [response for name in "xyz" for response in alone(base, name, noise, set())[:2]]
    stops = {response.ids[3] for response in free}
    expected = {name: iter(alone(base, name, noise, stops)) for name in CONTEXTS}
    sizes: list[tuple[int, ...]] = []
    note = lambda module, args, kwargs: sizes.append(tuple(kwargs["input_ids"].shape))  # noqa: E731
    handle = base.lm.base_model.register_forward_pre_hook(note, with_kwargs=True)
    base.peft.set_adapter("y")
    with base.routed(OF) as route:
        found = generate(base.lm, TOKENS, 8, PLAIN, noise, 0, stops, recorded, route)
    handle.remove()
    # a beginning of each that speaks, then three rows of x and of y, two of z and one of none
    assert sizes[:3] == [(4, 20), (9, 2), (11, 1)] and sizes[-1][0] < 6
    for name, response in zip(OF, found, strict=True):
        own = next(expected[name])
        assert response.ids == own.ids, name
        assert_close(response.sampler_logprobs, own.sampler_logprobs)
    again = alone(base, "y", noise, stops)  # the layers are as they were
    assert [r.ids for r in again] == [
        r.ids for name, r in zip(OF, found, strict=True) if name == "y"
    ]


def test_the_adapters_of_this_test_disagree(base: SharedBase, noise: torch.Tensor) -> None:
    """Else rows could be routed wrongly."""
    noise = noise[:1].expand(len(ROWS), -1)
    said = [alone(base, name, noise, set())[0].ids for name in ("x", "y", "")]
    assert len({*map(tuple, said)}) == 3


def test_in_mixed_precision_the_bits_are_those_of_the_adapter_alone(
    base: SharedBase, noise: torch.Tensor
) -> None:
    rounded = copy.deepcopy(base)
    set_products(rounded.lm, torch.bfloat16)
    own = [row for row, of in enumerate(OF) if of == "y"]
    with rounded.routed([OF[row] for row in own]) as route:
        layer: Any = rounded.lm.transformer.h[0].attn.c_attn
        assert {factor.dtype for factor in layer.forward.args[1:3]} == {torch.bfloat16}
        contexts = [TOKENS[row] for row in own]
        found = generate(rounded.lm, contexts, 8, PLAIN, noise[own], 0, set(), False, route)
    assert found == alone(rounded, "y", noise, set())
