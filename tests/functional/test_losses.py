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
from cory.functional.masking import masked_mean
from tests.support.close import assert_close

LossFunction = Callable[[Tensor, Tensor, Tensor, Tensor, float], Loss]
BOTH = pytest.mark.parametrize("loss_of", [clipped_policy_loss, clipped_value_loss])
ONE = torch.ones(1, 1, dtype=torch.bool)
MASK = torch.arange(3) < torch.tensor([3, 2, 0])[:, None]


def random_inputs() -> tuple[Tensor, Tensor, Tensor]:
    """New prediction, old prediction and target, far enough apart that some are clipped."""
    x = torch.randn(3, 3, 3, generator=torch.Generator().manual_seed(0))
    return x[0].requires_grad_(), x[1], x[2]


def grad_of(loss: Tensor, x: Tensor) -> Tensor:
    return torch.autograd.grad(loss, x)[0]


@pytest.mark.parametrize(
    ("advantage", "ratio", "expected", "slope"),
    [
        # clip range 0.2. Free: loss -A * ratio, and the same is d loss / d logprob
        (2.0, 0.5, -1.0, -1.0),
        (2.0, 0.9, -1.8, -1.8),
        (2.0, 1.1, -2.2, -2.2),
        (2.0, 1.5, -2.4, 0.0),  # clipped to 1.2: nothing more to win
        (-2.0, 0.5, 1.6, 0.0),  # clipped to 0.8
        (-2.0, 0.9, 1.8, 1.8),
        (-2.0, 1.1, 2.2, 2.2),
        (-2.0, 1.5, 3.0, 3.0),
        (0.0, 1.5, 0.0, 0.0),
    ],
)
def test_policy_loss_on_every_side(
    advantage: float, ratio: float, expected: float, slope: float
) -> None:
    logprobs, old = torch.tensor([[math.log(ratio) - 1]], requires_grad=True), -torch.ones(1, 1)
    loss = clipped_policy_loss(logprobs, old, torch.tensor([[advantage]]), ONE, 0.2)
    assert_close(loss.per_token, [[expected]])
    assert_close(grad_of(loss.per_token.sum(), logprobs), [[slope]])
    assert loss.clipped.item() == (advantage != 0 and slope == 0)
    assert_close(loss.deviation, [[math.log(ratio) ** 2 / 2]])


@pytest.mark.parametrize(
    ("value", "target", "expected", "slope"),
    [
        # old value 1, clip range 0.2. Free: (V - G)^2 and 2 (V - G)
        (1.1, 2.0, 0.81, -1.8),
        (1.5, 2.0, 0.64, 0.0),  # clipped to 1.2: (1.2 - 2)^2 is worse than 0.25
        (0.5, 2.0, 2.25, -3.0),  # clipped to 0.8 would be 1.44, which is better
        (0.9, 0.0, 0.81, 1.8),
        (0.5, 0.0, 0.64, 0.0),  # clipped to 0.8
        (1.5, 0.0, 2.25, 3.0),
    ],
)
def test_value_loss_on_every_side(
    value: float, target: float, expected: float, slope: float
) -> None:
    values = torch.tensor([[value]], requires_grad=True)
    loss = clipped_value_loss(values, torch.ones(1, 1), torch.tensor([[target]]), ONE, 0.2)
    assert_close(loss.per_token, [[expected]])
    assert_close(grad_of(loss.per_token.sum(), values), [[slope]])
    assert loss.clipped.item() == (slope == 0)
    assert_close(loss.deviation, [[(value - target) ** 2]])


@BOTH
def test_outside_the_mask_there_is_nothing(loss_of: LossFunction) -> None:
    new, old, target = random_inputs()
    loss = loss_of(new, old, target, MASK, 0.2)
    for part in loss:
        assert_close(part[~MASK].float(), [0.0] * 4)
    assert_close(grad_of(loss.per_token.sum(), new)[~MASK], [0.0] * 4)


@BOTH
@pytest.mark.parametrize("real", [True, False])
def test_what_would_be_clipped_counts_only_inside_the_mask(
    loss_of: LossFunction, real: bool
) -> None:
    new, old, target = torch.ones(1, 2), torch.zeros(1, 2), torch.full((1, 2), 2.0)
    loss = loss_of(new, old, target, torch.tensor([[True, real]]), 0.2)
    assert loss.clipped.tolist() == [[True, real]]


@BOTH
def test_padding_changes_nothing(loss_of: LossFunction) -> None:
    new, old, target = random_inputs()

    def widen(x: Tensor, fill: float) -> Tensor:
        return torch.cat([x, torch.full((3, 2), fill, dtype=x.dtype)], dim=1)

    narrow = loss_of(new, old, target, MASK, 0.2)
    wide = loss_of(widen(new, 8.0), widen(old, -4.0), widen(target, 2.0), widen(MASK, False), 0.2)
    for a, b in zip(wide, narrow, strict=True):
        assert_close(a, widen(b, 0))
    assert_close(
        grad_of(masked_mean(wide.per_token, widen(MASK, False)), new),
        grad_of(masked_mean(narrow.per_token, MASK), new),
    )


@BOTH
def test_only_the_loss_itself_carries_a_gradient(loss_of: LossFunction) -> None:
    new, old, target = random_inputs()
    loss = loss_of(new, old, target, MASK, 0.2)
    assert [part.requires_grad for part in loss] == [True, False, False]


@pytest.mark.parametrize("difference", [-1e4, 1e4])
@pytest.mark.parametrize("advantage", [-1.0, 1.0])
def test_a_huge_ratio_does_not_overflow(difference: float, advantage: float) -> None:
    logprobs = torch.tensor([[difference]], requires_grad=True)
    advantages = torch.tensor([[advantage]])
    loss = clipped_policy_loss(logprobs, torch.zeros(1, 1), advantages, ONE, 0.2)
    assert bool(loss.per_token.isfinite())
    assert bool(grad_of(loss.per_token.sum(), logprobs).isfinite())


def test_garbage_logprobs_outside_the_mask_do_not_reach_the_gradient() -> None:
    mask = torch.tensor([[True, False]])
    logprobs = torch.tensor([[-1.0, -math.inf]], requires_grad=True)
    loss = clipped_policy_loss(logprobs, torch.full((1, 2), -1.0), torch.ones(1, 2), mask, 0.2)
    assert_close(grad_of(loss.per_token.sum(), logprobs), [[-1.0, 0.0]])


@BOTH
@pytest.mark.parametrize("which", [0, 1, 2, 3])
def test_shapes_must_agree(loss_of: LossFunction, which: int) -> None:
    tensors = [torch.zeros(3, 3), torch.zeros(3, 3), torch.zeros(3, 3), MASK]
    tensors[which] = tensors[which][:, :1]  # would broadcast
    with pytest.raises(ValueError, match="shapes differ"):
        loss_of(*tensors, 0.2)


@BOTH
def test_mask_must_be_bool(loss_of: LossFunction) -> None:
    with pytest.raises(ValueError, match="bool"):
        loss_of(*torch.ones(4, 3, 3), 0.2)


def test_token_nll_by_hand() -> None:
    logprobs = torch.tensor([[-1.0, -2.0], [-0.5, -4.0]], requires_grad=True)
    mask = torch.tensor([[True, True], [True, False]])
    loss = weighted_nll(logprobs, torch.tensor([1.0, 3.0]), mask)
    assert_close(loss, [[1.0, 2.0], [1.5, 0.0]])
    # d loss / d logprob is minus the weight
    assert_close(grad_of(loss.sum(), logprobs), [[-1.0, -1.0], [-3.0, 0.0]])


def test_token_bce_by_hand() -> None:
    # logit 0: log 2 either way; logit log 3: probability 3/4, so -log(3/4) or -log(1/4)
    logits = torch.tensor([[0.0, math.log(3)], [math.log(3), 5.0]], requires_grad=True)
    mask = torch.tensor([[True, True], [True, False]])
    loss = token_bce(logits, torch.tensor([1.0, 0.0]), mask)
    assert_close(loss, [[math.log(2), math.log(4 / 3)], [math.log(4), 0.0]])
    # d loss / d logit is probability minus label
    assert_close(grad_of(loss.sum(), logits), [[-0.5, -0.25], [0.75, 0.0]])


@pytest.mark.parametrize("loss_of", [weighted_nll, token_bce])
def test_gradients_of_losses_on_examples(loss_of: Callable[..., Tensor]) -> None:
    new = random_inputs()[0].detach().double().requires_grad_()
    rows = torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: loss_of(x, rows, MASK), (new,))


@pytest.mark.parametrize("loss_of", [weighted_nll, token_bce])
def test_what_is_not_a_number_outside_the_mask_reaches_nothing(
    loss_of: Callable[..., Tensor],
) -> None:
    new = torch.where(MASK, random_inputs()[0].detach(), math.nan).requires_grad_()
    loss = loss_of(new, torch.ones(3), MASK)
    assert bool(loss.isfinite().all()) and bool(grad_of(loss.sum(), new).isfinite().all())
    assert_close(loss[~MASK], [0.0] * 4)


@pytest.mark.parametrize("loss_of", [weighted_nll, token_bce])
def test_losses_on_examples_refuse_other_shapes(loss_of: Callable[..., Tensor]) -> None:
    new = random_inputs()[0]
    with pytest.raises(ValueError, match="numbers for 3 turns"):
        loss_of(new, torch.ones(2), MASK)
    with pytest.raises(ValueError, match="shapes differ"):
        loss_of(new, torch.ones(3), MASK[:, :2])


def policy_loss_of(ratio: float, advantage: float, low: float, high: float | None) -> Loss:
    logprobs, old = torch.tensor([[math.log(ratio) - 1]], requires_grad=True), -torch.ones(1, 1)
    return clipped_policy_loss(logprobs, old, torch.tensor([[advantage]]), ONE, low, high)


def test_the_range_above_one_can_be_another() -> None:
    # 0.1 below, 0.3 above: a good token counts up to 1.3, a bad one down to 0.9
    assert_close(policy_loss_of(1.5, 1.0, 0.1, 0.3).per_token, [[-1.3]])
    assert_close(policy_loss_of(0.5, -1.0, 0.1, 0.3).per_token, [[0.9]])
    assert_close(policy_loss_of(1.5, 1.0, 0.1, None).per_token, [[-1.1]])


def test_the_ratio_of_a_whole_response_by_hand() -> None:
    # ratios 1.1 * 1.2 * 0.5 = 0.66 and 1.1 * 1.5 = 1.65, at every token; the last row has none.
    # Clipped at 0.2 the second counts 1.2 where that is worse
    ratios = torch.tensor([[1.1, 1.2, 0.5], [1.1, 1.5, 9.0], [9.0, 9.0, 9.0]])
    logprobs, old = ratios.log().requires_grad_(), torch.zeros(3, 3)
    advantages = torch.tensor([[2.0], [3.0], [5.0]]).expand(3, 3)
    loss = clipped_policy_loss(logprobs, old, advantages, MASK, 0.2, whole_responses=True)
    assert_close(loss.per_token, [[-1.32] * 3, [-3.6, -3.6, 0], [0, 0, 0]])
    assert loss.clipped.tolist() == [[False] * 3, [True, True, False], [False] * 3]
    # of each token, not of the response
    assert_close(loss.deviation[0], ratios[0].log() ** 2 / 2)
    # the mean over a response's tokens is its loss: each logprob moves the ratio of all
    average = loss_average("responses", MASK, 9)
    gradient = grad_of(average.part(loss.per_token, torch.arange(3)), logprobs)
    assert_close(gradient, [[-1.32] * 3, [0.0] * 3, [0.0] * 3])


AVERAGES = {  # of 1 to 6 over tokens 3, 2 and 0, at most 4 long
    "tokens": (1 + 2 + 3 + 4 + 5) / 5,
    "responses": (6 / 3 + 9 / 2) / 2,
    "constant": 15 / (2 * 4),
}


@pytest.mark.parametrize(("how", "expected"), AVERAGES.items())
def test_averages_by_hand_and_in_parts(how: str, expected: float) -> None:
    per_token = torch.tensor([[1.0, 2, 3], [4, 5, 0], [0, 0, 0]])
    average = loss_average(how, MASK, 4)
    assert_close(average.part(per_token, torch.arange(3)) / average.whole, expected)
    # microbatches of one row, one of them padded further
    parts = [
        average.part(torch.cat([row, torch.zeros(2)])[None], torch.tensor([number]))
        for number, row in enumerate(per_token)
    ]
    assert_close(sum(parts) / average.whole, expected)


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


def test_an_unknown_average_is_refused_and_no_tokens_have_none() -> None:
    with pytest.raises(ValueError, match="unknown average 'mean'"):
        loss_average("mean", MASK, 4)
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    for how in AVERAGES:
        average = loss_average(how, nothing, 4)
        assert average.part(torch.zeros(2, 3), torch.arange(2)) / average.whole == 0
