"""Losses of PPO, of supervised training and of SPAG; learning-rate schedules.

Letters: B turns (or utterances), R response tokens.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from cory.functional.logprobs import MAX_LOG_RATIO, sampled_kl


class Loss(NamedTuple):
    """A loss before averaging, and statistics of it; all (B, R).

    The caller averages, because a minibatch may be cut into microbatches of unequal size.
    """

    per_token: Tensor  # with gradient
    clipped: Tensor  # bool, True where the clipped term is the larger one
    deviation: Tensor  # policy: approximate KL to the old policy (k2); value: squared error


def clipped_policy_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    clip_range: float,
    clip_range_high: float | None = None,
    ratio: str = "token",
) -> Loss:
    """The clipped surrogate, negated (Schulman et al., 2017, eq. 7; Ma et al., eq. 11).

    logprobs: (B, R) under the policy being trained, with gradient
    old_logprobs: (B, R) under the policy that generated
    advantages: (B, R)
    mask: (B, R) bool, True on response tokens
    clip_range_high: how far the ratio counts above 1 (DAPO: Yu et al., 2025); None: `clip_range`
    ratio: token; else of the whole response, the same at each of its tokens, over which the mean is
        the response's loss: response: the product of its tokens' ratios, as a response is one
        action (RLOO: Ahmadian et al., 2024; TRL's RLOOTrainer) | gspo: their geometric mean, which
        is on one scale for all lengths (GSPO: Zheng et al., 2025, eq. 7)
    """
    difference = torch.where(mask, logprobs - old_logprobs, 0.0)
    deviation = 0.5 * difference.detach() ** 2
    if ratio != "token":
        whole = difference.sum(1, keepdim=True)
        if ratio == "gspo":
            whole = whole / mask.sum(1, keepdim=True).clamp(min=1)
        difference = torch.where(mask, whole, 0.0)
    ratios = difference.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    high = clip_range if clip_range_high is None else clip_range_high
    free = -advantages * ratios
    held = -advantages * ratios.clamp(1 - clip_range, 1 + high)
    per_token = torch.where(mask, torch.maximum(free, held), 0.0)
    return Loss(per_token, mask & (held > free), deviation)


class LossAverage(NamedTuple):
    """How the loss of a minibatch is averaged: `part` of every microbatch, over `whole`.

    Both are of the whole minibatch, so that microbatches and processes change nothing.
    """

    weights: Tensor  # (B,) what each turn's tokens are multiplied by
    whole: Tensor  # scalar

    def part(self, per_token: Tensor, rows: Tensor) -> Tensor:
        """A microbatch's part of the sum (scalar): per_token (b, R) of the turns `rows` (b,)."""
        return (per_token.sum(1) * self.weights[rows]).sum()

    def within(self, chosen: Tensor, turns: int) -> "LossAverage":
        """The same, where a minibatch is the turns at `chosen` (B,) of a batch of so many turns."""
        weights = torch.zeros(turns, device=self.weights.device)
        weights[chosen] = self.weights
        return LossAverage(weights, self.whole)


def loss_average(how: str, mask: Tensor, limit: int, turns: int | None = None) -> LossAverage:
    """The average that a policy's loss on a minibatch is.

    how: `tokens`: over all tokens, each of which counts the same (DAPO: Yu et al., 2025);
        `responses`: over the tokens of each response, then over responses, each of which counts the
        same (GRPO: Shao et al., 2024, eq. 3); `constant`: the sum over responses, each divided by
        `limit` (Dr. GRPO: Liu et al., 2025)
    mask: (B, R) bool, of the whole minibatch; rows without tokens do not count
    limit: the most tokens that a response may have
    turns: `tokens`: the average is over the tokens of so many turns at a time, in their order, and
        then over these averages (TRL: `mini_batch_size`); None: over all tokens
    """
    lengths, responses = mask.sum(1), mask.any(1).sum().clamp(min=1)
    ones = torch.ones(len(mask), device=mask.device)
    if how == "tokens" and turns is not None:
        parts = torch.arange(len(mask), device=mask.device) // turns
        tokens = torch.zeros(len(mask), dtype=lengths.dtype, device=mask.device)
        tokens = tokens.index_add(0, parts, lengths)
        return LossAverage(1 / tokens[parts].clamp(min=1), (tokens > 0).sum().clamp(min=1))
    if how == "tokens":
        return LossAverage(ones, lengths.sum().clamp(min=1))
    if how == "responses":
        return LossAverage(1 / lengths.clamp(min=1), responses)
    return LossAverage(ones, responses * limit)


def clipped_value_loss(
    values: Tensor, old_values: Tensor, returns: Tensor, mask: Tensor, value_clip_range: float
) -> Loss:
    """Squared error to the returns, the worse of free and clipped (Ma et al., eq. 10).

    There is no factor 1/2, as in the paper; TRL and the authors' code halve it.

    values: (B, R) predicted now, with gradient
    old_values: (B, R) predicted at roll-out
    returns: (B, R)
    mask: (B, R) bool, True on response tokens
    """
    # masked before squaring: a value outside the mask must not reach the gradient, NaN or not
    values, returns = torch.where(mask, values, old_values), torch.where(mask, returns, old_values)
    near = values.clamp(old_values - value_clip_range, old_values + value_clip_range)
    free, held = (values - returns) ** 2, (near - returns) ** 2
    return Loss(torch.maximum(free, held), held > free, free.detach())


def weighted_nll(logprobs: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    """Negative log-likelihood of each token, times the weight of its turn.

    logprobs: (B, R) under the policy being trained, with gradient
    weights: (B,) 1 for plain imitation
    mask: (B, R) bool, True on tokens to imitate
    returns: (B, R), 0 outside the mask
    """
    inside = torch.where(mask, logprobs, 0.0)  # values outside must not reach the gradient
    return -inside * weights[:, None]


def verdict_logits(values: Tensor, logprobs: Tensor, likelihood_coef: float) -> Tensor:
    """Logit of "this answer is right" before each of its tokens.

    The value head reads one state, which need not tell how likely the tokens before it were. So the
    sum of their log-probabilities may be added, times `likelihood_coef`; with 0 the head's values
    remain (Park et al., 2025).

    values: (B, R), of the value head before each token
    logprobs: (B, R), of each token
    returns: (B, R), with gradient where the inputs have one
    """
    if likelihood_coef == 0:
        return values
    return values + likelihood_coef * (logprobs.cumsum(1) - logprobs)


def token_bce(logits: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """Binary cross-entropy of each token's logit with the label of its turn.

    logits: (B, R) a prediction before each token, as of `verdict_logits`, with gradient
    labels: (B,) 1 where the turn is right, 0 where it is wrong
    mask: (B, R) bool, True on predictions that count
    returns: (B, R), 0 outside the mask
    """
    # masked before the logarithm: a logit outside the mask must not reach the gradient, NaN or not
    inside = torch.where(mask, logits, 0.0)
    losses = F.binary_cross_entropy_with_logits(
        inside, labels[:, None].expand_as(inside), reduction="none"
    )
    return torch.where(mask, losses, 0.0)


def utterance_logprobs(logprobs: Tensor, mask: Tensor) -> Tensor:
    """Log-probability of each utterance: the mean over its tokens.

    As the released code of Cheng et al.: the ratio of two sums, which the paper prints, leaves any
    clip range within a few dozen tokens.

    logprobs: (B, R)
    mask: (B, R) bool, True on tokens of the utterance
    returns: (B,), 0 where there are no tokens
    """
    return torch.where(mask, logprobs, 0.0).sum(1) / mask.sum(1).clamp(min=1)


def offline_kl(logprobs: Tensor, reference: Tensor, sampled: Tensor, estimator: str) -> Tensor:
    """Estimate of KL(policy || reference) from utterances sampled by another policy.

    estimator: weighted: k1 times policy / sampling policy, unbiased for log-probabilities that are
        summed over all that was sampled (not over winners alone) | k1, k3: without a weight, as in
        `sampled_kl`

    logprobs: (B,) under the policy, with gradient
    reference: (B,) under the frozen reference
    sampled: (B,) under the policy that sampled the utterances; 0 where it is not known
    """
    if estimator != "weighted":
        return sampled_kl(logprobs, reference, estimator)
    weight = (logprobs - sampled).clamp(max=MAX_LOG_RATIO).exp()
    return weight * (logprobs - reference)


class OfflineLoss(NamedTuple):
    """A loss per utterance, and statistics of it; all (B,)."""

    per_utterance: Tensor  # with gradient
    ratio: Tensor
    kl: Tensor
    clipped: Tensor  # bool, True where the clipped term is the larger one


def kl_imitation_loss(
    logprobs: Tensor, reference: Tensor, kl_coef: float, estimator: str
) -> OfflineLoss:
    """-log pi(u) + beta_1 KL (Cheng et al., eq. 8, whose sign of the KL is corrected).

    logprobs, reference: (B,) of whole utterances
    """
    kl = offline_kl(logprobs, reference, torch.zeros_like(reference), estimator)
    ratio = (logprobs.detach() - reference).clamp(max=MAX_LOG_RATIO).exp()
    clipped = torch.zeros_like(ratio, dtype=torch.bool)
    return OfflineLoss(-logprobs + kl_coef * kl, ratio, kl.detach(), clipped)


def self_play_loss(
    logprobs: Tensor,
    reference: Tensor,
    advantages: Tensor,
    kl_coef: float,
    estimator: str,
    clip_range: float | None,
    kl_in_advantage: bool,
    kl_shares: Tensor,
) -> OfflineLoss:
    """-(rho A - beta_2 KL) (Cheng et al., eq. 12), or with the KL inside A as in their code.

    Summed over a game, the advantages of eq. 12 are 1, and there is one KL: an utterance has a
    share of each.

    logprobs: (B,) of whole utterances, with gradient
    reference: (B,) under the snapshot that played: the denominator of rho, and the KL's reference
    advantages: (B,)
    kl_shares: (B,) weight of the utterance's KL: 1 / T for each of a game's T utterances
    clip_range: bound on |rho - 1|; None: not clipped, as printed
    kl_in_advantage: take beta_2 log rho off A, as in the released code
    """
    difference = (logprobs - reference).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    ratio = difference.exp()
    kl = offline_kl(logprobs, reference, reference, estimator)
    penalty = kl_coef * kl_shares
    # not detached, as in the released code: rho log rho together estimates the KL
    if kl_in_advantage:
        advantages = advantages - penalty * difference
    free = -advantages * ratio
    clipped = torch.zeros_like(ratio, dtype=torch.bool)
    loss = free
    if clip_range is not None:
        held = -advantages * ratio.clamp(1 - clip_range, 1 + clip_range)
        loss, clipped = torch.maximum(free, held), held > free
    if not kl_in_advantage:
        loss = loss + penalty * kl
    return OfflineLoss(loss, ratio.detach(), kl.detach(), clipped)


def role_weights(games: Mapping[str, int]) -> dict[str, float]:
    """N / (2 N_role): weights with which both roles count the same (Cheng et al., eq. 8 and 12).

    games: role -> number of training games of that role
    returns: role -> weight, for roles with any training game
    """
    total = sum(games.values())
    return {role: total / (2 * count) for role, count in games.items() if count > 0}


def share_of_peak(progress: float, schedule: str, warmup: float, final: float = 0.0) -> float:
    """The learning rate as a share of its highest value.

    progress: share of the stage that is over, in [0, 1]
    schedule: constant | linear | cosine, after the warm-up
    warmup: share of the stage in which the learning rate rises linearly from 0
    final: what the result falls to at the end of the stage, if it falls
    """
    if progress < warmup:
        return progress / warmup
    if schedule == "constant":
        return 1.0
    if schedule == "linear":
        left = (1 - progress) / (1 - warmup)
    else:
        left = 0.5 * (1 + math.cos(math.pi * (progress - warmup) / (1 - warmup)))
    return final + (1 - final) * left
