"""Adapters on one frozen base: which of them acts, how they leave, and where they cannot lie."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from cory.config import Config, ConfigError
from cory.models.actor_critic import ActorCriticModel
from cory.models.bundle import ModelBundle
from tests.models.test_team import INPUTS
from tests.support.building import build
from tests.support.refusals import refusal

ConfigOf = Callable[..., Config]
NAMES = ["agent_0", "agent_1"]


def bundle_of(config_of: ConfigOf, *overrides: str) -> tuple[ModelBundle, list[ActorCriticModel]]:
    """A team whose adapters differ from the base and from each other."""
    config = config_of("model.sharing=adapters", *overrides)
    bundle = ModelBundle(config.model, torch.device("cpu"))
    models = list(bundle.new_models(NAMES, torch.Generator().manual_seed(0)))
    noise = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for model in models:
            for parameter in model.trainable().values():
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=noise))
    return bundle, [model.eval() for model in models]


@pytest.fixture(scope="module")
def pair(config_of: ConfigOf) -> tuple[ModelBundle, list[ActorCriticModel]]:
    return bundle_of(config_of)


def test_agents_share_every_weight_of_the_base(
    pair: tuple[ModelBundle, list[ActorCriticModel]],
) -> None:
    _, (first, second) = pair
    assert first.lm is second.lm
    own = [set(map(id, model.trainable().values())) for model in (first, second)]
    assert own[0] and own[1] and not own[0] & own[1]
    both = {id(p) for model in (first, second) for p in model.parameters()}
    base = [p for p in first.lm.parameters() if id(p) not in own[0] | own[1]]
    assert len(both) == len(base) + len(own[0]) + len(own[1])


@pytest.mark.slow
def test_gradient_checkpointing_makes_layers_run_again(config_of: ConfigOf) -> None:
    calls = []
    for checkpointing in ("false", "true"):
        config = config_of(
            "algorithm=ppo",
            "model.sharing=adapters",
            f"hardware.gradient_checkpointing={checkpointing}",
        )
        agent = build(config).agents["agent_0"]
        seen: list[int] = []
        block = agent.model.lm.transformer.h[0].mlp
        block.register_forward_pre_hook(lambda *_, seen=seen: seen.append(1))
        agent.start_update()
        logprobs, _ = agent.engine(*INPUTS)
        agent.engine.backward(logprobs.sum())
        calls.append(len(seen))
    assert calls == [1, 2]


def test_unknown_targets_are_refused_with_what_there_is(config_of: ConfigOf) -> None:
    message = refusal(lambda: bundle_of(config_of, "model.adapter.targets=[q_proj]"))
    assert "q_proj" in message and "this model has c_attn, c_fc, c_proj" in message


def test_4_bits_without_the_package_are_refused(
    config_of: ConfigOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="needs the package bitsandbytes"):
        bundle_of(config_of, "model.quantisation=nf4")
