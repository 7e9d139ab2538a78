"""Losses on utterances that were spoken before, by a snapshot or by somebody else. B utterances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from cory.functional.logprobs import MAX_LOG_RATIO, sampled_kl


def utterance_logprobs(logprobs: Tensor, mask: Tensor, reduction: str) -> Tensor:
    """Log-probability of each utterance: mean or sum over its tokens.

    The mean is what the code that Cheng et al. released takes: the ratio of two sums leaves any
    range within a few dozen tokens.

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


def offline_kl(logprobs: Tensor, reference: Tensor, spoken: Tensor, estimator: str) -> Tensor:
    """KL(policy || reference) of utterances that the policy did not sample itself.

    weighted: k1 times the utterance's probability under the policy over that under whoever spoke
        it, which makes the estimate unbiased for what the policy would say
    k1, k3: as if the policy had spoken (`sampled_kl`)

    logprobs: (B,) under the policy, with gradient
    reference: (B,) under the frozen reference
    spoken: (B,) under whoever spoke; 0 where nobody knows
    """
    if estimator != "weighted":
        return sampled_kl(logprobs, reference, estimator)
    weight = (logprobs - spoken).clamp(max=MAX_LOG_RATIO).exp()
    return weight * (logprobs - reference)


class OfflineLoss(NamedTuple):
    """A loss per utterance, and what is worth logging about it; all (B,)."""

    per_utterance: Tensor  # with gradient
    ratio: Tensor
    kl: Tensor
    clipped: Tensor  # bool, True where clipping decided


def kl_imitation_loss(
    logprobs: Tensor, reference: Tensor, kl_coef: float, estimator: str
) -> OfflineLoss:
    """-log pi(u) + beta_1 KL, the sign of the KL mended (Cheng et al., eq. 8).

    logprobs, reference: (B,) of whole utterances
    """
    kl = offline_kl(logprobs, reference, torch.zeros_like(reference), estimator)
    ratio = (logprobs.detach() - reference).clamp(max=MAX_LOG_RATIO).exp()
    nothing = torch.zeros_like(ratio, dtype=torch.bool)
    return OfflineLoss(-logprobs + kl_coef * kl, ratio, kl.detach(), nothing)


def self_play_loss(
    logprobs: Tensor,
    reference: Tensor,
    advantages: Tensor,
    kl_coef: float,
    estimator: str,
    clip_range: float | None,
    kl_in_advantage: bool,
) -> OfflineLoss:
    """-(rho A - beta_2 KL) (Cheng et al., eq. 12), or with the KL inside A as they released it.

    logprobs: (B,) of whole utterances, with gradient
    reference: (B,) under the snapshot that played: the denominator of rho, and the KL's reference
    advantages: (B,)
    clip_range: None: rho is not clipped, as printed
    """
    difference = (logprobs - reference).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    ratio = difference.exp()
    kl = offline_kl(logprobs, reference, reference, estimator)
    # not detached in the released code either: there the product rho log rho is what is estimated
    worth = advantages - kl_coef * difference if kl_in_advantage else advantages
    free = -worth * ratio
    clipped = torch.zeros_like(ratio, dtype=torch.bool)
    loss = free
    if clip_range is not None:
        held = -worth * ratio.clamp(1 - clip_range, 1 + clip_range)
        loss, clipped = torch.maximum(free, held), held > free
    if not kl_in_advantage:
        loss = loss + kl_coef * kl
    return OfflineLoss(loss, ratio.detach(), kl.detach(), clipped)


def role_weights(games: Mapping[str, int]) -> dict[str, float]:
    """N / (2 N_role): both roles weigh the same, however often each is learnt from.

    As Cheng et al. released it, and what the halves before both sums of eq. 8 and 12 ask for.

    games: role -> number of games in which it is learnt from, counted in games, not utterances
    returns: for the roles that are learnt from at all
    """
    whole = sum(games.values())
    return {role: whole / (2 * count) for role, count in games.items() if count > 0}


def game_share(utterances: int, games: int) -> float:
    """What turns a mean over utterances into a mean over games of sums over their utterances.

    utterances: learnt from in all games together
    games: learnt from, counted once for each role that is
    """
    return utterances / games
