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
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    clip_range: float,
    clip_range_high: float | None = None,
    whole_responses: bool = False,
) -> Loss:
    """The clipped surrogate, negated (Schulman et al., 2017, eq. 7; Ma et al., eq. 11).

    logprobs: (B, R) under the policy being trained, with gradient
    old_logprobs: (B, R) under the policy that generated
    advantages: (B, R)
    mask: (B, R) bool, True on response tokens
    clip_range_high: how far the ratio counts above 1 (DAPO: Yu et al., 2025); None: `clip_range`
    whole_responses: the ratio is of the whole response, the same at each of its tokens: a response
        is one action (RLOO: Ahmadian et al., 2024). Its mean over the tokens is the loss of TRL's
        RLOOTrainer.
    """
    _check_shapes(logprobs, old_logprobs, advantages, mask)
    difference = torch.where(mask, logprobs - old_logprobs, 0.0)
    deviation = 0.5 * difference.detach() ** 2
    if whole_responses:
        difference = torch.where(mask, difference.sum(1, keepdim=True), 0.0)
    ratio = difference.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    high = clip_range if clip_range_high is None else clip_range_high
    free = -advantages * ratio
    held = -advantages * ratio.clamp(1 - clip_range, 1 + high)
    per_token = torch.where(mask, torch.maximum(free, held), 0.0)
    return Loss(per_token, mask & (held > free), deviation)


class LossAverage(NamedTuple):
    """How the loss of a minibatch is averaged: `part` of every microbatch, over `whole`.

    Both are of the whole minibatch, so that neither the size of a microbatch nor the number of
    processes changes anything.
    """

    weights: Tensor  # (B,) what each turn's tokens are multiplied by
    whole: Tensor  # scalar

    def part(self, per_token: Tensor, rows: Tensor) -> Tensor:
        """A microbatch's part of the sum: scalar.

        per_token: (b, R), 0 outside the mask
        rows: (b,) int64, which of the B turns these are
        """
        return (per_token.sum(1) * self.weights[rows]).sum()

    def within(self, chosen: Tensor, turns: int) -> "LossAverage":
        """The same, where a minibatch is the turns at `chosen` of a larger batch.

        chosen: (B,) int64
        turns: of the larger batch
        """
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
    if how == "constant":
        return LossAverage(ones, responses * limit)
    raise ValueError(f"unknown average '{how}'; choose tokens, responses or constant")


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

    logits: (B, R) a prediction before each token, as of `verdict_logits`, with gradient
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
