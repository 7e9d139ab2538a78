"""A run stops when its first update moves nothing, or moves what it must not; none is random."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import MixtralConfig, MixtralForCausalLM

from cory.config import Config
from cory.models import engine
from cory.models.engine import Engine, byte_sum
from cory.models.policy import PPOPolicy
from cory.trainers import sanity_checks
from cory.trainers.sanity_checks import (
    FirstUpdateError,
    check_first_update,
    tolerance_of,
    typical_worst,
)
from tests.support.building import LetterShare, build
from tests.support.fixtures import LONGEST, make_tokenizer, save

ConfigOf = Callable[..., Config]


@pytest.mark.parametrize(
    ("precision", "compute", "off", "tolerance"),
    [
        ("fp32", "fp32", 9.0, 1e-3),
        ("fp32", "bf16", 0.2, 0.1),
        ("bf16", "bf16", 0.2, 0.1),
        ("bf16", "fp32", 0.2, 0.1),  # nf4
        ("fp16", "fp16", 0.2, 0.02),
    ],
)
def test_a_few_tokens_may_be_far_off_where_products_are_rounded(
    precision: str, compute: str, off: float, tolerance: float
) -> None:
    """Of 1,000 tokens 5 are off by 9 and 15 by 0.2; padding, off by 50, does not count."""
    model: Any = SimpleNamespace(precision=precision, compute_precision=compute)
    policy: Any = SimpleNamespace(bundle=SimpleNamespace(config=model))
    deviations = torch.tensor([-9.0] * 5 + [0.2] * 15 + [0.01] * 980 + [50.0] * 24).view(32, 32)
    mask = (torch.arange(1024) < 1000).view(32, 32)
    assert typical_worst(deviations, mask, policy) == pytest.approx(off)
    assert typical_worst(deviations, torch.zeros_like(mask), policy) == 0
    assert tolerance_of(model) == tolerance


@pytest.mark.parametrize("sharing", ["copies", "adapters"])
def test_an_update_that_moves_nothing_stops_the_run(
    config_of: ConfigOf, monkeypatch: pytest.MonkeyPatch, sharing: str
) -> None:
    """As with adapters that were loaded frozen."""
    trainer = build(config_of(f"model.sharing={sharing}"), reward=LetterShare())
    monkeypatch.setattr(Engine, "step", lambda engine: 1.0)
    with pytest.raises(FirstUpdateError, match="agent_0: its first update changed none"):
        trainer.step(0)


@pytest.mark.parametrize(
    ("sharing", "whose", "said"),
    [
        ("copies", "other", "agent_0: its first update also changed agent_1: lm."),
        ("copies", "reference", "agent_0: its first update also changed reference: "),
        ("adapters", "other", "agent_0: its first update also changed agent_"),
        ("adapters", "base", "agent_0: its first update also changed agent_"),
    ],
)
def test_an_update_that_moves_more_than_its_own_stops_the_run(
    config_of: ConfigOf, monkeypatch: pytest.MonkeyPatch, sharing: str, whose: str, said: str
) -> None:
    trainer = build(config_of(f"model.sharing={sharing}"), reward=LetterShare())
    first, second = trainer.agents.values()
    own = {id(p) for agent in (first, second) for p in agent.model.trainable().values()}
    victims = {
        "other": next(iter(second.model.trainable().values())),
        "reference": next(first.bundle.pretrained.parameters()),
        "base": next((p for p in first.model.lm.parameters() if id(p) not in own), None),
    }
    victim = victims[whose]
    assert victim is not None
    step = Engine.step

    def step_and_nudge(engine: Engine) -> float | None:
        with torch.no_grad():
            victim.flatten()[0] += 1e-3
        return step(engine)

    monkeypatch.setattr(Engine, "step", step_and_nudge)
    with pytest.raises(FirstUpdateError) as error:
        trainer.step(0)
    assert str(error.value).startswith(said)


@pytest.mark.parametrize("sharing", ["copies", "adapters"])
def test_a_healthy_first_update_passes(
    config_of: ConfigOf, monkeypatch: pytest.MonkeyPatch, sharing: str
) -> None:
    checked = []

    def check(agent: PPOPolicy, *others: Any) -> bool:
        checked.append(agent.name)
        return check_first_update(agent, *others)

    monkeypatch.setattr(sanity_checks, "check_first_update", check)
    trainer = build(config_of(f"model.sharing={sharing}"), reward=LetterShare())
    models = [agent.model for agent in trainer.agents.values()]
    own = [list(model.trainable().values()) for model in models]
    learning = {id(parameter) for parameters in own for parameter in parameters}
    everything = [*models, trainer.agents["agent_0"].bundle.pretrained]
    frozen = [p for module in everything for p in module.parameters() if id(p) not in learning]
    before = [[p.detach().clone() for p in parameters] for parameters in (*own, frozen)]
    trainer.step(0)
    *moved, stood = (
        [not torch.equal(old, new) for old, new in zip(olds, news, strict=True)]
        for olds, news in zip(before, (*own, frozen), strict=True)
    )
    assert len(moved) == 2 and all(any(flags) for flags in moved)
    assert stood and not any(stood)
    trainer.step(1)
    assert checked == ["agent_0", "agent_1"]  # at the first update, and never again


@pytest.fixture(scope="module")
def noisy_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A mixture of experts whose router is noisy in training mode."""
    tokenizer = make_tokenizer()
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": LONGEST}
    torch.manual_seed(0)
    model = MixtralForCausalLM(
        MixtralConfig(
            vocab_size=len(tokenizer),
            **sizes,
            **heads,
            num_local_experts=4,
            router_jitter_noise=0.9,
            attention_dropout=0.5,
            initializer_range=0.2,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    return save(model, tokenizer, str(tmp_path_factory.mktemp("noisy_model")))


@pytest.mark.parametrize("sharing", ["copies", "adapters"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_the_ratio_of_the_first_step_is_one(
    config_of: ConfigOf, noisy_model: str, sharing: str, checkpointing: bool
) -> None:
    config = config_of(
        "algorithm=grpo",
        "algorithm.epochs=1",
        "algorithm.kl_coef=0",
        f"model.path={noisy_model}",
        f"model.sharing={sharing}",
        "model.adapter.dropout=0.5",
        f"hardware.gradient_checkpointing={checkpointing}".lower(),
    )
    metrics = build(config, LetterShare()).step(0)
    assert metrics["ppo/policy/ratio/agent_0"] == pytest.approx(1, abs=1e-6)
    assert metrics["ppo/policy/approxkl/agent_0"] < 1e-12
    assert metrics["ppo/gradient_norm/agent_0"] > 0


def test_a_fingerprint_is_the_sum_of_all_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SUMMED_AT_ONCE", 3)  # several pieces, the last one short
    numbers = torch.tensor([[1, 2], [256, -1]], dtype=torch.int16)
    assert byte_sum(numbers) == 1 + 2 + 1 + 255 + 255
    assert byte_sum(numbers.T) == byte_sum(numbers)  # not contiguous
