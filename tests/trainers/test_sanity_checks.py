"""A run stops when its first update moves nothing, or moves what it must not; none is random."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cory.models.engine import Engine
from cory.models.policy import PPOPolicy
from cory.trainers import ppo, sanity_checks
from cory.trainers.sanity_checks import FirstUpdateError, byte_sum, tolerance_of, typical_worst
from tests.support.building import LetterShare, build, steps
from tests.support.composing import ConfigOf


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
    config_of: ConfigOf, monkeypatch, sharing: str, whose: str, said: str
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


def test_every_agents_first_update_is_checked(config_of: ConfigOf, monkeypatch) -> None:
    checked = []

    def check(agent: PPOPolicy, *others: Any) -> Any:
        checked.append(agent.name)
        return sanity_checks.checked_update(agent, *others)

    monkeypatch.setattr(ppo, "checked_update", check)
    steps(build(config_of(), LetterShare()), 0, 1)
    assert checked == ["agent_0", "agent_1"]  # and no later one


def test_a_fingerprint_is_the_sum_of_all_bytes(monkeypatch) -> None:
    monkeypatch.setattr(sanity_checks, "SUMMED_AT_ONCE", 3)  # several pieces, the last one short
    numbers = torch.tensor([[1, 2], [256, -1]], dtype=torch.int16)
    assert byte_sum(numbers) == 1 + 2 + 1 + 255 + 255
    assert byte_sum(numbers.T) == byte_sum(numbers)  # not contiguous
