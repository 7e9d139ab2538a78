"""The models of a team: which weights train, how a value head begins, whom its loss trains."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cory.config import Config
from cory.functional.logprobs import pad_turns
from cory.models.bundle import ModelBundle
from tests.models.test_engine import model_of
from tests.support.close import assert_close

CONTEXTS = [[5, 9, 40], [7], [11, 12, 13, 14, 15, 16, 17]]
RESPONSES = [[20, 21], [22, 23, 24, 25], [26]]
INPUTS = pad_turns(CONTEXTS, RESPONSES, 0)


def test_every_weight_of_a_copy_trains_and_none_of_the_reference(
    config_of: Callable[..., Config],
) -> None:
    bundle = ModelBundle(config_of().model, torch.device("cpu"))
    (model,) = bundle.new_models(["agent_0"], torch.Generator().manual_seed(0))
    logprobs, values = model.eval()(*INPUTS)
    (logprobs.sum() + values.sum()).backward()
    without = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert without == []
    assert all(p.grad is None and not p.requires_grad for p in bundle.pretrained.parameters())


def test_uniform_weights_lie_within_one_over_the_root_of_the_width(
    config_of: Callable[..., Config],
) -> None:
    head = model_of(config_of()).head
    bound = head.in_features**-0.5
    weights = head.weight.detach()
    assert bool((weights.abs() <= bound).all())
    assert float(weights.max()) > 0.8 * bound and float(weights.min()) < -0.8 * bound
    assert 0.4 * bound < float(weights.abs().mean()) < 0.6 * bound
    assert float(head.bias.detach()) == 0


def test_a_head_of_zeros_says_that_every_state_is_worth_nothing(
    config_of: Callable[..., Config],
) -> None:
    model = model_of(config_of("model.value_init=zero"))
    _, values = model(*INPUTS)
    assert not model.head.weight.any() and not values.any()
    values.sum().backward()
    assert bool(model.head.weight.grad.any())  # so that it can learn


def test_dropout_acts_on_what_the_head_reads_while_updating(
    config_of: Callable[..., Config],
) -> None:
    dropping: Any = SimpleNamespace(model=config_of().model.replace(value_dropout=0.25))
    head = model_of(dropping).head.eval()
    with torch.no_grad():
        head.weight.fill_(1.0)
        ones = torch.ones(400, head.in_features)
        assert_close(head(ones), torch.full((400,), float(head.in_features)))
        kept = head.train()(ones) * 0.75  # each of the features is 0, or divided by 0.75
    assert_close(kept, kept.round())
    assert 0.7 < float(kept.mean()) / head.in_features < 0.8 and len(kept.unique()) > 1


@pytest.mark.parametrize("detached", [False, True])
def test_whether_the_model_gets_the_gradient_of_values(
    config_of: Callable[..., Config], detached: bool
) -> None:
    model = model_of(config_of(f"model.value_detached={detached}"))
    logprobs, values = model(*INPUTS)
    (logprobs.sum() + values.square().sum()).backward()
    whole = {name: p.grad.clone() for name, p in model.lm.named_parameters()}
    model.zero_grad()
    model(*INPUTS)[0].sum().backward()
    for name, parameter in model.lm.named_parameters():
        alone = torch.allclose(parameter.grad, whole[name], rtol=1e-4, atol=1e-6)
        assert alone == detached or not whole[name].any(), name
