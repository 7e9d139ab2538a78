"""Losses on recorded utterances (Cheng et al., 2024). Letters: B utterances, R tokens."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from cory.functional.logprobs import MAX_LOG_RATIO, sampled_kl


def utterance_logprobs(logprobs: Tensor, mask: Tensor, reduction: str) -> Tensor:
    """Log-probability of each utterance: mean or sum over its tokens.

    The released code of Cheng et al. takes the mean: the ratio of two sums leaves any clip range
    within a few dozen tokens.

    logprobs: (B, R)
    mask: (B, R) bool, True on tokens of the utterance
    reduction: mean | sum
    returns: (B,), 0 where there are no tokens
    """
    if logprobs.shape != mask.shape or mask.dtype != torch.bool:
        raise ValueError(f"logprobs {tuple(logprobs.shape)} and mask {mask.dtype} do not fit")
    if reduction not in ("mean", "sum"):
        raise ValueError(f"unknown reduction '{reduction}'; choose mean or sum")
    total = torch.where(mask, logprobs, 0.0).sum(1)
    return total if reduction == "sum" else total / mask.sum(1).clamp(min=1)


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

    The released code has the same weights.

    games: role -> number of training games of that role
    returns: role -> weight, for roles with any training game
    """
    total = sum(games.values())
    return {role: total / (2 * count) for role, count in games.items() if count > 0}


def utterances_per_game(utterances: int, games: int) -> float:
    """Factor from a mean over utterances to a mean over games of sums over utterances.

    utterances: number of training utterances
    games: number of training games, counted once per training role
    """
    return utterances / games
