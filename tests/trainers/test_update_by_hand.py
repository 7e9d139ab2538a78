"""One PPO run computed again by hand, from the recorded turns to the gradient.

Everything is switched on, and every number differs from its neighbour: an update that leaves a step
out, or takes one setting for another, gives other numbers.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from cory.models.bundle import ModelBundle
from cory.trainers.estimates import Estimate
from cory.trainers.ppo import PPOTrainer
from cory.trainers.steps import Stage
from tests.support.building import (
    LetterShare,
    Updated,
    after_two_steps,
    build,
    gradient_norm,
    noise_in,
    updates_of,
)
from tests.support.close import assert_close
from tests.support.composing import ConfigOf

AGENTS, ITERATIONS = ("agent_0", "agent_1"), 4
SETTINGS = """
epochs=1 gamma=0.9 gae_lambda=0.7 whiten_advantages=true kl_estimator=k1 kl_coef=0.5
kl_controller=adaptive kl_target=0.14 kl_horizon=20 score_scaling=normalise score_clip=1.3
clip_range=0.1 clip_range_high=0.35 value_clip_range=0.05 value_coef=0.6 learning_rate=1e-2
max_grad_norm=null swap_every=2
"""
WORDS = ["algorithm=cory", *(f"algorithm.{word}" for word in SETTINGS.split())]


@pytest.fixture(scope="module")
def run(config_of: ConfigOf) -> tuple[PPOTrainer, dict[str, list[Updated]]]:
    """Of responses of one to six tokens: every fourth token of the vocabulary ends one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelBundle, "stops", frozenset(range(0, 320, 4)))
        trainer = build(config_of(*WORDS), LetterShare(" "))
        return trainer, updates_of(trainer, ITERATIONS)


def rewards_by_hand(one: Updated, before: list[Updated]) -> list[list[float]]:
    """Rewards of every token: the scaled credit at the end, and the KL penalty everywhere."""
    so_far = np.array([credit for each in [*before, one] for credit in each.credits])
    shift, scale = so_far.mean(), so_far.std(ddof=1)
    rewards = []
    for row, credit in enumerate(one.credits):
        mask = one.batch.response_mask[row]
        kl = (one.batch.logprobs - one.batch.ref_logprobs)[row, mask].double().numpy()
        tokens = -one.kl_coef * kl
        tokens[-1] += np.clip((credit - shift) / scale, -1.3, 1.3)
        rewards.append(tokens.tolist())
    return rewards


def advantages_by_hand(rewards: list[list[float]], values: list[list[float]]) -> list[list[float]]:
    """GAE as the sum that it is: temporal differences to come, each discounted by gamma lambda."""
    found = []
    for reward, value in zip(rewards, values, strict=True):
        after = [*value[1:], 0.0]
        deltas = [r + 0.9 * v - w for r, v, w in zip(reward, after, value, strict=True)]
        found.append(
            [
                sum((0.9 * 0.7) ** k * delta for k, delta in enumerate(deltas[t:]))
                for t in range(len(deltas))
            ]
        )
    return found


@pytest.mark.parametrize("agent", AGENTS)
def test_advantages_and_returns_from_credits_kl_and_values(run, agent: str) -> None:
    """Credits are scaled by this agent's credits so far, and advantages whitened last."""
    updates = run[1][agent]
    clipped, whitening, shared = 0, [], []
    for number, one in enumerate(updates):
        mask = one.batch.response_mask
        assert one.batch.values is not None and one.estimate.returns is not None
        values = [
            row[real].double().tolist() for row, real in zip(one.batch.values, mask, strict=True)
        ]
        rewards = rewards_by_hand(one, updates[:number])
        advantages = advantages_by_hand(rewards, values)
        returns = [
            [a + v for a, v in zip(*pair, strict=True)]
            for pair in zip(advantages, values, strict=True)
        ]
        flat = np.array([x for row in advantages for x in row])
        whitened = (flat - flat.mean()) / flat.std(ddof=1)
        assert_close(one.estimate.returns[mask].double(), [x for row in returns for x in row], 1e-4)
        assert_close(one.estimate.advantages[mask].double(), whitened.tolist(), 1e-3)
        assert not one.estimate.advantages[~mask].any()
        whitening.append(abs(flat.std(ddof=1) - 1) + abs(flat.mean()))
        shared.append(np.std(np.array(one.credits) - np.array(one.scores)))
        clipped += int((one.batch.credits.abs() == 1.3).sum())
        assert len(set(mask.sum(1).tolist())) > 2
    # what would hide an error is not the case
    assert clipped > 0 and max(whitening) > 0.2 and max(shared) > 1e-3


@pytest.mark.parametrize("agent", AGENTS)
def test_the_controller_moves_the_coefficient_that_is_used(run, agent: str) -> None:
    updates = run[1][agent]
    coefficient, errors = 0.5, []
    for one in updates:
        assert one.kl_coef == pytest.approx(coefficient, rel=1e-6)
        kl = float((one.batch.logprobs - one.batch.ref_logprobs)[one.batch.response_mask].sum()) / 8
        errors.append(min(0.2, max(-0.2, kl / 0.14 - 1)))
        coefficient *= 1 + errors[-1] * 8 / 20  # eight turns an iteration
    assert run[0].agents[agent].kl_coef == pytest.approx(coefficient, rel=1e-6)
    assert any(0 < abs(error) < 0.2 for error in errors)  # not at a bound


@pytest.mark.parametrize("kl_in", ["reward", "loss"])
def test_the_loss_and_its_gradient_by_hand(config_of: ConfigOf, kl_in: str) -> None:
    """Old log-probabilities, values and returns are such that every bound is met from both sides.

    The norm of the gradient tells how the parts of the loss are weighed.
    """
    words = [*WORDS, f"algorithm.kl_in={kl_in}", "hardware.microbatch_size=2"]
    trainer = build(config_of(*words), LetterShare())
    agent, known = after_two_steps(trainer)
    mask, noise = known.response_mask, noise_in(known.response_mask)
    assert known.values is not None
    old = replace(
        known,
        logprobs=known.logprobs + noise(0.4),
        ref_logprobs=known.logprobs + noise(0.5),
        values=known.values + noise(0.2),
    )
    estimate = Estimate(noise(1.0), known.values + noise(0.3))
    coefficient = agent.kl_coef
    assert coefficient != 0.5

    agent.engine.reset_optimizer()
    agent.model.eval()
    inputs = known.input_ids, known.attention_mask, mask
    logprobs, values, *_ = agent.model(*inputs)
    assert values is not None and old.values is not None and estimate.returns is not None
    ratio, gain = (logprobs - old.logprobs)[mask].exp(), estimate.advantages[mask]
    low = torch.where(ratio < 0.9, 0.9, ratio)
    bounded = torch.where(low > 1.35, 1.35, low)
    policy = torch.maximum(-gain * ratio, -gain * bounded)
    value, start, target = values[mask], old.values[mask], estimate.returns[mask]
    near = torch.minimum(torch.maximum(value, start - 0.05), start + 0.05)
    squares = torch.maximum((value - target) ** 2, (near - target) ** 2)
    away = (old.ref_logprobs - logprobs)[mask]
    kl = (away.exp() - 1 - away) * (kl_in == "loss")
    total = policy.mean() + 0.6 * squares.mean() + coefficient * kl.mean()
    norm = gradient_norm(total, agent)
    policy, squares = policy.detach(), squares.detach()
    ratio = ratio.detach()
    sides = {(bool(r > 1), bool(a > 0)) for r, a in zip(ratio, gain, strict=True)}
    assert len(sides) == 4 and bool((ratio > 1.35).any()) and bool((ratio < 0.9).any())

    found = trainer.update(agent, old, estimate, Stage(0, 1, 1e-3))
    assert_close(found["ppo/loss/policy/agent_0"], float(policy.mean()), 1e-4)
    assert_close(found["ppo/loss/value/agent_0"], float(squares.mean()), 1e-4)
    assert_close(found["ppo/policy/ratio/agent_0"], float(ratio.mean()), 1e-4)
    cut = float((policy > -gain * ratio).float().mean())
    assert_close(found["ppo/policy/clipfrac/agent_0"], cut)
    cut = float((squares > (value - target) ** 2).float().mean())
    assert_close(found["ppo/value/clipfrac/agent_0"], cut)
    assert found["ppo/policy/clipfrac/agent_0"] > 0.1 and cut > 0.1
    assert_close(found["ppo/gradient_norm/agent_0"], norm, 1e-3)
