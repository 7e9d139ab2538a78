"""Losses of PPO and of supervised training. Letters: B turns, R response tokens."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from cory.functional.logprobs import MAX_LOG_RATIO


class Loss(NamedTuple):
    """A loss before averaging, and statistics of it; all (B, R).

    The caller averages, because a minibatch may be cut into microbatches of unequal size.
    """

    per_token: Tensor  # with gradient
    clipped: Tensor  # bool, True where the clipped term is the larger one
    deviation: Tensor  # policy: approximate KL to the old policy (k2); value: squared error


def clipped_policy_loss(
    logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, mask: Tensor, clip_range: float
) -> Loss:
    """The clipped surrogate, negated (Schulman et al., 2017, eq. 7; Ma et al., eq. 11).

    logprobs: (B, R) under the policy being trained, with gradient
    old_logprobs: (B, R) under the policy that generated
    advantages: (B, R)
    mask: (B, R) bool, True on response tokens
    """
    _check_shapes(logprobs, old_logprobs, advantages, mask)
    difference = torch.where(mask, logprobs - old_logprobs, 0.0)
    ratio = difference.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    free = -advantages * ratio
    held = -advantages * ratio.clamp(1 - clip_range, 1 + clip_range)
    per_token = torch.where(mask, torch.maximum(free, held), 0.0)
    return Loss(per_token, mask & (held > free), 0.5 * difference.detach() ** 2)


def clipped_value_loss(
    values: Tensor, old_values: Tensor, returns: Tensor, mask: Tensor, value_clip_range: float
) -> Loss:
    """Squared error to the returns, the worse of free and clipped (Ma et al., eq. 10).

    There is no factor 1/2, as in the paper; TRL and the authors' code halve it (detail 3).

    values: (B, R) predicted now, with gradient
    old_values: (B, R) predicted at roll-out
    returns: (B, R)
    mask: (B, R) bool, True on response tokens
    """
    _check_shapes(values, old_values, returns, mask)
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
    _check_shapes(logprobs, mask)
    _check_rows(weights, mask)
    inside = torch.where(mask, logprobs, 0.0)  # values outside must not reach the gradient
    return -inside * weights[:, None]


def token_bce(logits: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """Binary cross-entropy of each token's logit with the label of its turn.

    logits: (B, R) a prediction after each token, with gradient
    labels: (B,) 1 where the turn is right, 0 where it is wrong
    mask: (B, R) bool, True on predictions that count
    returns: (B, R), 0 outside the mask
    """
    _check_shapes(logits, mask)
    _check_rows(labels, mask)
    # masked before the logarithm: a logit outside the mask must not reach the gradient, NaN or not
    inside = torch.where(mask, logits, 0.0)
    losses = F.binary_cross_entropy_with_logits(
        inside, labels[:, None].expand_as(inside), reduction="none"
    )
    return torch.where(mask, losses, 0.0)


def _check_rows(numbers: Tensor, mask: Tensor) -> None:
    if numbers.shape != mask.shape[:1]:
        raise ValueError(f"{tuple(numbers.shape)} numbers for {len(mask)} turns")


def _check_shapes(*tensors: Tensor) -> None:
    if len({t.shape for t in tensors}) != 1:
        raise ValueError(f"shapes differ: {[tuple(t.shape) for t in tensors]}")
    if tensors[-1].dtype != torch.bool:
        raise ValueError(f"mask must be bool, got {tensors[-1].dtype}")
