"""Losses of steps in a run and of utterances spoken before, and learning rates."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from transformers import get_scheduler

from cory.functional.losses import (
    Loss,
    clipped_policy_loss,
    clipped_value_loss,
    kl_imitation_loss,
    loss_average,
    offline_kl,
    role_weights,
    self_play_loss,
    share_of_peak,
    token_bce,
    utterance_logprobs,
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


@pytest.mark.parametrize("kind", ["response", "gspo"])
def test_one_ratio_for_a_response_by_hand(kind: str) -> None:
    """Of three tokens, and of one: log-ratios 0.1, 0.3, -0.1 (0.3; a third of it) and -0.2."""
    mask = torch.tensor([[True, True, True], [True, False, False]])
    logprobs = torch.tensor([[0.1, 0.3, -0.1], [-0.2, 9.0, 9.0]], requires_grad=True)
    loss = clipped_policy_loss(
        logprobs, torch.zeros(2, 3), torch.tensor([[2.0] * 3, [-1.0] * 3]), mask, 0.15, 0.25, kind
    )
    whole = 0.1 if kind == "gspo" else 0.3
    first = -2 * min(math.exp(whole), 1.25)
    assert_close(loss.per_token, [[first] * 3, [0.85, 0.0, 0.0]])  # exp(-0.2) is 0.819
    assert loss.clipped.tolist() == [[kind == "response"] * 3, [True, False, False]]
    (loss.per_token.sum(1) / mask.sum(1)).sum().backward()
    slope = -2 * math.exp(0.1) / 3 if kind == "gspo" else 0.0  # of a third of s; where not clipped
    assert logprobs.grad is not None
    assert_close(logprobs.grad, [[slope] * 3, [0.0] * 3])


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


LOGPROBS = torch.tensor([[-1.0, -2.0, -9.0], [-0.5, -8.0, -7.0]])
SPOKEN = torch.tensor([[True, True, False], [True, False, False]])
# two utterances under the policy and under the snapshot
OWN = torch.tensor([-1.5, -0.5])
SNAPSHOT = torch.tensor([-2.0, -0.25])
RATIO = [math.exp(0.5), math.exp(-0.25)]
WHOLE = torch.ones(2)  # each utterance has the whole KL


def test_an_utterance_is_the_mean_of_its_tokens() -> None:
    assert utterance_logprobs(LOGPROBS, SPOKEN).tolist() == [-1.5, -0.5]
    none = torch.zeros_like(SPOKEN)
    assert utterance_logprobs(LOGPROBS, none).tolist() == [0, 0]


def test_tokens_outside_the_mask_reach_no_gradient() -> None:
    logprobs = LOGPROBS.clone()
    logprobs[0, 2] = math.nan
    logprobs.requires_grad_()
    utterance_logprobs(logprobs, SPOKEN).sum().backward()
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]


def test_kl_by_hand() -> None:
    difference = [0.5, -0.25]
    assert offline_kl(OWN, SNAPSHOT, SNAPSHOT, "k1").tolist() == difference
    k3 = [math.exp(-d) - 1 + d for d in difference]
    assert offline_kl(OWN, SNAPSHOT, SNAPSHOT, "k3").tolist() == pytest.approx(k3)
    weighted = [r * d for r, d in zip(RATIO, difference, strict=True)]
    assert offline_kl(OWN, SNAPSHOT, SNAPSHOT, "weighted").tolist() == pytest.approx(weighted)
    # of a teacher's words nobody knows the probability: the policy's own is the weight
    known = [math.exp(-1.5) * 0.5, math.exp(-0.5) * -0.25]
    nobody = torch.zeros(2)
    assert offline_kl(OWN, SNAPSHOT, nobody, "weighted").tolist() == pytest.approx(known)


def test_imitation_pays_for_likelihood_and_charges_for_kl() -> None:
    found = kl_imitation_loss(OWN, SNAPSHOT, 0.1, "k1")
    assert found.per_utterance.tolist() == pytest.approx([1.5 + 0.05, 0.5 - 0.025])
    assert found.ratio.tolist() == pytest.approx(RATIO)
    assert not found.clipped.any()
    # further from the reference than before: the loss grows with the coefficient
    steep = kl_imitation_loss(OWN, SNAPSHOT, 1.0, "k3").per_utterance
    assert (steep > kl_imitation_loss(OWN, SNAPSHOT, 0.1, "k3").per_utterance).all()


def test_self_play_by_hand() -> None:
    worth = torch.tensor([0.4, 0.6])
    found = self_play_loss(OWN, SNAPSHOT, worth, 0.2, "weighted", None, False, WHOLE)
    kl = [RATIO[0] * 0.5, RATIO[1] * -0.25]
    by_hand = [-RATIO[0] * 0.4 + 0.2 * kl[0], -RATIO[1] * 0.6 + 0.2 * kl[1]]
    assert found.per_utterance.tolist() == pytest.approx(by_hand)
    assert found.ratio.tolist() == pytest.approx(RATIO) and not found.clipped.any()


def test_the_released_form_has_the_kl_in_the_advantage_and_clips_both() -> None:
    worth = torch.tensor([0.4, 0.6])
    free = self_play_loss(OWN, SNAPSHOT, worth, 0.2, "k1", None, True, WHOLE)
    apart = self_play_loss(OWN, SNAPSHOT, worth, 0.2, "weighted", None, False, WHOLE)
    # without clipping it is the weighted estimate of a separate term
    assert free.per_utterance.tolist() == pytest.approx(apart.per_utterance.tolist())
    held = self_play_loss(OWN, SNAPSHOT, worth, 0.2, "k1", 0.2, True, WHOLE)
    first = -(0.4 - 0.2 * 0.5) * 1.2  # the ratio of 1.65 is cut
    # 0.78 lies outside, too, but the unclipped value is the worse one
    second = -(0.6 + 0.2 * 0.25) * RATIO[1]
    assert held.per_utterance.tolist() == pytest.approx([first, second])
    assert held.clipped.tolist() == [True, False]


def test_far_ratios_stay_finite() -> None:
    far = torch.tensor([100.0, -100.0])
    found = self_play_loss(far, -far, torch.ones(2), 0.2, "weighted", None, False, WHOLE)
    assert found.per_utterance.isfinite().all()


def test_role_weights_of_a_reproduction() -> None:
    """31,273 games won by attackers and 2,700 by defenders: 0.543 and 6.29."""
    found = role_weights({"attacker": 31_273, "defender": 2_700})
    assert found["attacker"] == pytest.approx(0.543, abs=5e-4)
    assert found["defender"] == pytest.approx(6.29, abs=5e-3)
    # one that never wins has no weight
    assert role_weights({"attacker": 4, "defender": 0}) == {"attacker": 0.5}


def test_linear_falls_to_a_share() -> None:
    found = [share_of_peak(p, "linear", 0.2, 0.1) for p in (0.1, 0.2, 0.4, 0.6, 1.0)]
    assert found == pytest.approx([0.5, 1.0, 0.775, 0.55, 0.1])
    assert share_of_peak(0.0, "constant", 0.0) == 1


@pytest.mark.parametrize(
    ("schedule", "theirs", "final"),
    [
        ("constant", "constant_with_warmup", 0.0),
        ("linear", "linear", 0.0),
        ("cosine", "cosine", 0.0),
        ("cosine", "cosine_with_min_lr", 0.3),
    ],
)
def test_schedules_are_those_of_transformers(schedule: str, theirs: str, final: float) -> None:
    """Theirs begins each step's rate at its beginning, so that the first rate is 0."""
    steps, warmup = 40, 8
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    own = {"min_lr_rate": final} if final else None
    scheduler = get_scheduler(theirs, optimiser, warmup, steps, scheduler_specific_kwargs=own)
    for step in range(steps):
        found = share_of_peak(step / steps, schedule, warmup / steps, final)
        assert found == pytest.approx(scheduler.get_last_lr()[0], abs=1e-12), step
        optimiser.step()
        scheduler.step()
