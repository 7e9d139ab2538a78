"""The models of a team: which weights train, and how its value heads and adapters begin."""

import pytest
import torch

from cory.functional.logprobs import pad_turns
from cory.models.actor_critic import ActorCriticModel
from cory.models.bundle import ModelBundle
from tests.models.test_engine import model_of
from tests.support.building import build
from tests.support.composing import ConfigOf
from tests.support.refusals import refusal

CONTEXTS = [[5, 9, 40], [7], [11, 12, 13, 14, 15, 16, 17]]
RESPONSES = [[20, 21], [22, 23, 24, 25], [26]]
INPUTS = pad_turns(CONTEXTS, RESPONSES, 0)


def test_every_weight_of_a_copy_trains_and_none_of_the_reference(config_of: ConfigOf) -> None:
    bundle = ModelBundle(config_of().model, torch.device("cpu"))
    (model,) = bundle.new_models(["agent_0"], torch.Generator().manual_seed(0))
    logprobs, values, *_ = model.eval()(*INPUTS)
    (logprobs.sum() + values.sum()).backward()
    without = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert without == []
    assert all(p.grad is None and not p.requires_grad for p in bundle.pretrained.parameters())


def test_uniform_weights_lie_within_one_over_the_root_of_the_width(config_of: ConfigOf) -> None:
    head = model_of(config_of()).value_head
    bound = head.in_features**-0.5
    weights = head.weight.detach()
    assert bool((weights.abs() <= bound).all())
    assert float(weights.max()) > 0.8 * bound and float(weights.min()) < -0.8 * bound
    assert 0.4 * bound < float(weights.abs().mean()) < 0.6 * bound
    assert float(head.bias.detach()) == 0


def test_a_head_of_zeros_says_that_every_state_is_worth_nothing(config_of: ConfigOf) -> None:
    model = model_of(config_of("model.value_init=zero"))
    values = model(*INPUTS).values
    assert not model.value_head.weight.any() and not values.any()
    values.sum().backward()
    assert bool(model.value_head.weight.grad.any())  # so that it can learn


def models_of(config_of: ConfigOf, *overrides: str) -> list[ActorCriticModel]:
    config = config_of("model.sharing=adapters", *overrides)
    bundle = ModelBundle(config.model, torch.device("cpu"))
    return list(bundle.new_models(["agent_0", "agent_1"], torch.Generator()))


@pytest.mark.slow
def test_gradient_checkpointing_makes_layers_run_again(config_of: ConfigOf) -> None:
    calls = []
    for checkpointing in ("false", "true"):
        config = config_of(
            *("algorithm=ppo", "model.sharing=adapters"),
            f"hardware.gradient_checkpointing={checkpointing}",
        )
        agent = build(config).agents["agent_0"]
        seen: list[int] = []
        block = agent.model.lm.transformer.h[0].mlp
        block.register_forward_pre_hook(lambda *_, seen=seen: seen.append(1))
        agent.start_update()
        logprobs, *_ = agent.engine(*INPUTS)
        agent.engine.backward(logprobs.sum())
        calls.append(len(seen))
    assert calls == [1, 2]


def test_unknown_targets_are_refused_with_what_there_is(config_of: ConfigOf) -> None:
    message = refusal(lambda: models_of(config_of, "model.adapter.targets=[q_proj]"))
    assert "q_proj" in message and "this model has c_attn, c_fc, c_proj" in message
