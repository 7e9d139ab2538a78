"""A whole step of PPO with weights, optimiser and products in bf16, beside the same in float32."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from cory.episode import Batch, Turn, turns_of
from cory.models.policy import PPOPolicy
from cory.trainers.estimates import Estimate
from cory.trainers.ppo import PPOTrainer
from cory.trainers.steps import Stage
from tests.support.building import LetterShare, build, noise_in
from tests.support.composing import ConfigOf

BF16 = "model.precision=bf16"
WORDS = ["algorithm=cory", "algorithm.epochs=1", "algorithm.learning_rate=1e-3"]
WORDS += ["algorithm.kl_estimator=full"]


def update(agent: PPOPolicy, trainer: PPOTrainer, turns: list[Turn]) -> tuple[Batch, dict]:
    """An update of the agent on these turns, with bounds that are met, and its statistics."""
    known = agent.annotate(turns)
    noise = noise_in(known.response_mask)
    assert known.values is not None
    old = replace(known, logprobs=known.logprobs + noise(0.3), values=known.values + noise(0.2))
    estimate = Estimate(noise(1.0), known.values + noise(0.5))
    return known, trainer.update(agent, old, estimate, Stage(0, 1, 1e-3))


def test_numbers_are_those_of_float32_but_for_rounding(config_of: ConfigOf) -> None:
    exact, rounded = (build(config_of(*WORDS, *more), LetterShare()) for more in ([], [BF16]))
    exact.step(0)
    for name in exact.agents:
        turns = turns_of(exact.episodes, name)
        # both from the model as it came, which the first step of `exact` has changed
        fresh = build(config_of(*WORDS), LetterShare())
        batch, expected = update(fresh.agents[name], fresh, turns)
        half, found = update(rounded.agents[name], rounded, turns)
        mask = batch.response_mask
        assert half.logprobs.dtype == half.credits.dtype == torch.float32
        off = (half.logprobs - batch.logprobs)[mask].abs()
        assert 0 < off.max() < 0.05 and off.mean() < 0.01
        assert batch.values is not None and half.values is not None
        assert (half.values - batch.values)[mask].abs().max() < 0.05
        for key in ("loss/policy", "loss/value", "gradient_norm", "policy/ratio"):
            one, other = (numbers[f"ppo/{key}/{name}"] for numbers in (expected, found))
            assert other == pytest.approx(one, rel=0.03), key
            assert abs(one) > 1e-3
