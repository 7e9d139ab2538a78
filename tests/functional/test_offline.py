"""Losses on utterances that were spoken before, against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from cory.functional.losses import (
    kl_imitation_loss,
    offline_kl,
    role_weights,
    self_play_loss,
    utterance_logprobs,
)

LOGPROBS = torch.tensor([[-1.0, -2.0, -9.0], [-0.5, -8.0, -7.0]])
MASK = torch.tensor([[True, True, False], [True, False, False]])
# two utterances under the policy and under the snapshot
OWN = torch.tensor([-1.5, -0.5])
SNAPSHOT = torch.tensor([-2.0, -0.25])
RATIO = [math.exp(0.5), math.exp(-0.25)]
WHOLE = torch.ones(2)  # each utterance has the whole KL


def test_an_utterance_is_the_mean_or_the_sum_of_its_tokens() -> None:
    assert utterance_logprobs(LOGPROBS, MASK, "mean").tolist() == [-1.5, -0.5]
    assert utterance_logprobs(LOGPROBS, MASK, "sum").tolist() == [-3.0, -0.5]
    none = torch.zeros_like(MASK)
    assert utterance_logprobs(LOGPROBS, none, "mean").tolist() == [0, 0]


def test_tokens_outside_the_mask_reach_no_gradient() -> None:
    logprobs = LOGPROBS.clone()
    logprobs[0, 2] = math.nan
    logprobs.requires_grad_()
    utterance_logprobs(logprobs, MASK, "mean").sum().backward()
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


def test_a_role_that_never_wins_has_no_weight() -> None:
    assert role_weights({"attacker": 4, "defender": 0}) == {"attacker": 0.5}
