"""How a trainer estimates advantages from a roll-out; the formulas are in functional/advantages.py.

An estimator takes the turns of one agent, their groups, and the coefficient of the KL penalty that
is a part of the reward (0 where the penalty is a part of the loss).
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from cory.config import PPOConfig
from cory.episode import Batch
from cory.functional.advantages import (
    batch_normalised,
    gae,
    group_relative,
    group_statistics,
    kl_penalised_rewards,
    leave_one_out,
)
from cory.functional.logprobs import whiten


class Estimate(NamedTuple):
    """What one agent's update aims at."""

    advantages: Tensor  # (B, R), 0 outside the mask
    returns: Tensor | None  # (B, R), what the value head learns; None where there is none


Estimator = Callable[[Batch, Tensor, float], Estimate]  # turns, groups (B,), kl_coef


def estimator_of(config: PPOConfig) -> Estimator:
    """The estimator that `algorithm.advantages` names."""
    if config.advantages == "gae":
        return partial(with_values, config=config)
    if config.advantages == "batch":
        return partial(over_batch, config=config)
    if config.advantages == "role_baseline":  # credits are above the baselines of roles already
        return partial(within_groups, compare=lambda rewards, groups: rewards)
    compare = leave_one_out
    if config.advantages == "group":
        compare = partial(group_relative, divide_by_std=config.divide_by_std)
    return partial(within_groups, compare=compare)


def with_values(batch: Batch, groups: Tensor, kl_coef: float, config: PPOConfig) -> Estimate:
    """GAE; each token has an advantage of its own. Groups play no part."""
    assert batch.values is not None
    mask = batch.response_mask
    rewards = kl_penalised_rewards(batch.credits, batch.kl, mask, kl_coef)
    advantages, returns = gae(rewards, batch.values, mask, config.gamma, config.gae_lambda)
    return Estimate(whiten(advantages, mask) if config.whiten_advantages else advantages, returns)


def within_groups(
    batch: Batch, groups: Tensor, kl_coef: float, compare: Callable[[Tensor, Tensor], Tensor]
) -> Estimate:
    """GRPO and RLOO: all tokens of a turn have its advantage over others of its group.

    compare: rewards (B,) of whole turns and groups (B,) -> advantages (B,)
    """
    mask = batch.response_mask
    rewards = kl_penalised_rewards(batch.credits, batch.kl, mask, kl_coef).sum(1)
    advantages = compare(rewards, groups)
    return Estimate(torch.where(mask, advantages[:, None], 0.0), None)


def over_batch(batch: Batch, groups: Tensor, kl_coef: float, config: PPOConfig) -> Estimate:
    """REINFORCE++: a token's rewards still to come, compared with those of all other tokens."""
    mask, credits = batch.response_mask, batch.credits
    if config.group_baseline:
        credits = credits - group_statistics(credits, groups).mean
    rewards = kl_penalised_rewards(credits, batch.kl, mask, kl_coef)
    return Estimate(batch_normalised(rewards, mask, config.gamma), None)
