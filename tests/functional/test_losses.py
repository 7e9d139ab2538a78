from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cory.functional.losses import (
    Loss,
    clipped_policy_loss,
    clipped_value_loss,
    loss_average,
    token_bce,
    weighted_nll,
)
from tests.support.close import assert_close

LossFunction = Callable[[Tensor, Tensor, Tensor, Tensor, float], Loss]
BOTH = pytest.mark.parametrize("loss_of", [clipped_policy_loss, clipped_value_loss])
ONE = torch.ones(1, 1, dtype=torch.bool)
MASK = torch.arange(3) < torch.tensor([3, 2, 0])[:, None]


def grad_of(loss: Tensor, x: Tensor) -> Tensor:
    return torch.autograd.grad(loss, x)[0]


@BOTH
@pytest.mark.parametrize("outside", [1.0, math.nan, -math.inf])
def test_outside_the_mask_there_is_nothing(loss_of: LossFunction, outside: float) -> None:
    new = torch.where(MASK, 1.0, outside).requires_grad_()  # every token would be clipped
    loss = loss_of(new, torch.zeros(3, 3), torch.full((3, 3), 2.0), MASK, 0.2)
    assert loss.clipped.tolist() == MASK.tolist()
    for part in loss:
        assert_close(part[~MASK].float(), [0.0] * 4)
    assert_close(grad_of(loss.per_token.sum(), new)[~MASK], [0.0] * 4)
    assert [part.requires_grad for part in loss] == [True, False, False]


@pytest.mark.parametrize("difference", [-1e4, 1e4])
@pytest.mark.parametrize("advantage", [-1.0, 1.0])
def test_a_huge_ratio_does_not_overflow(difference: float, advantage: float) -> None:
    logprobs = torch.tensor([[difference]], requires_grad=True)
    advantages = torch.tensor([[advantage]])
    loss = clipped_policy_loss(logprobs, torch.zeros(1, 1), advantages, ONE, 0.2)
    assert bool(loss.per_token.isfinite())
    assert bool(grad_of(loss.per_token.sum(), logprobs).isfinite())


def test_token_nll_by_hand() -> None:
    logprobs = torch.tensor([[-1.0, -2.0], [-0.5, math.nan]], requires_grad=True)
    mask = torch.tensor([[True, True], [True, False]])
    loss = weighted_nll(logprobs, torch.tensor([1.0, 3.0]), mask)
    assert_close(loss, [[1.0, 2.0], [1.5, 0.0]])
    # d loss / d logprob is minus the weight
    assert_close(grad_of(loss.sum(), logprobs), [[-1.0, -1.0], [-3.0, 0.0]])


def test_token_bce_by_hand() -> None:
    # logit 0: log 2 either way; logit log 3: probability 3/4, so -log(3/4) or -log(1/4)
    logits = torch.tensor([[0.0, math.log(3)], [math.log(3), math.nan]], requires_grad=True)
    mask = torch.tensor([[True, True], [True, False]])
    loss = token_bce(logits, torch.tensor([1.0, 0.0]), mask)
    assert_close(loss, [[math.log(2), math.log(4 / 3)], [math.log(4), 0.0]])
    # d loss / d logit is probability minus label
    assert_close(grad_of(loss.sum(), logits), [[-0.5, -0.25], [0.75, 0.0]])


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        (1, (6 / 3 + 4 / 1 + 11 / 2) / 3),  # each response by itself; the last has no tokens
        (2, (10 / 4 + 11 / 2) / 2),
        (4, 21 / 6),
        (None, 21 / 6),
    ],
)
def test_tokens_of_so_many_turns_at_a_time(turns: int | None, expected: float) -> None:
    """As TRL averages each small batch, and accumulates their gradients."""
    per_token = torch.tensor([[1.0, 2, 3], [4, 0, 0], [5, 6, 0], [0, 0, 0]])
    average = loss_average("tokens", per_token > 0, 9, turns)
    assert_close(average.part(per_token, torch.arange(4)) / average.whole, expected)
    parts = [average.part(per_token[[n]], torch.tensor([n])) for n in (3, 1, 0, 2)]
    assert_close(sum(parts) / average.whole, expected)
    # the minibatch is turns 5, 2, 0 and 3 of a batch of six, in this order
    chosen = torch.tensor([5, 2, 0, 3])
    wider = average.within(chosen, 6)
    found = sum(wider.part(per_token[[n]], chosen[[n]]) for n in range(4)) / wider.whole
    assert_close(found, expected)


def test_no_tokens_have_no_average() -> None:
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    for how in ("tokens", "responses", "constant"):
        average = loss_average(how, nothing, 4)
        assert average.part(torch.zeros(2, 3), torch.arange(2)) / average.whole == 0
