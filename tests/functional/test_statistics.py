"""pass@k, intervals, paired differences, verdicts and their AUC, by hand and by table."""

from __future__ import annotations

import math

import pytest
import torch

from cory.functional.losses import verdict_logits
from cory.functional.statistics import (
    auc,
    contributions,
    mean,
    mean_interval,
    paired_interval,
    pairs_needed,
    pass_at_k,
)
from tests.support.close import assert_close


@pytest.mark.parametrize(
    ("right", "of", "k", "expected"),
    [
        (1, 4, 1, 1 / 4),  # k = 1: the share of right tries
        (1, 4, 2, 1 / 2),  # of 6 pairs, 3 hold the right one
        (2, 4, 2, 5 / 6),  # only the pair of the two wrong ones fails
        (2, 4, 3, 1.0),  # three tries cannot all be among two wrong ones
        (2, 16, 8, 1 - 28 / 120),  # C(14, 8) / C(16, 8) = 8 * 7 / (16 * 15)
        (0, 16, 16, 0.0),
        (5000, 10_000, 3, 1 - (5000 * 4999 * 4998) / (10_000 * 9999 * 9998)),
    ],
)
def test_the_estimator_by_hand(right: int, of: int, k: int, expected: float) -> None:
    assert_close(pass_at_k(right, of, k), expected)


def test_contributions_have_the_ratio_as_their_mean() -> None:
    sums, counts = [3.0, 0.0, 5.0], [4.0, 2.0, 6.0]
    found = contributions(sums, counts)
    assert_close(mean(found), 8 / 12)
    # the first word's games went a third better than the ratio says: 3 of 4 instead of 8 of 12
    assert_close(found[0], 8 / 12 + (3 - 4 * 8 / 12) / 4)
    assert_close(contributions([1.0, 2.0], [2.0, 2.0]), [0.5, 1.0])


# 95th percentiles of Student's t, as tables print them
T_2, T_3 = 2.919986, 2.353363


def test_the_interval_of_three_seeds() -> None:
    """1, 2 and 3: mean 2, s = 1, half width t / sqrt(3)."""
    half = T_2 / math.sqrt(3)
    assert mean_interval([1.0, 2.0, 3.0]) == pytest.approx((2 - half, 2 + half), abs=1e-6)


@pytest.mark.parametrize("values", [[], [1.0], [0.3, 0.3], [0.3, 0.1 * 3], [0.0, 0.0, 0.0]])
def test_what_does_not_vary_says_nothing_about_others(values: list[float]) -> None:
    assert mean_interval(values) is None


def test_differences_are_paired() -> None:
    # differences 1, 2, 6: mean 3, variance 7
    half = T_2 * math.sqrt(7 / 3)
    found = paired_interval([10, 20, 30], [11, 22, 36])
    assert found == pytest.approx((3 - half, 3 + half), abs=1e-6)
    assert paired_interval([1.0], [2.0]) is None
    with pytest.raises(ValueError, match="shapes"):
        paired_interval([1.0, 2.0], [1.0, 2.0, 3.0])


def test_shares_count_two_tries_more() -> None:
    """One of four rose: as if six, of which the squares sum to 2 and the changes to 1."""
    half = T_3 * math.sqrt((2 / 6 - 1 / 36) / 6)
    found = paired_interval([0, 1, 0, 1], [1, 1, 0, 1], 1)
    assert found == pytest.approx((1 / 6 - half, 1 / 6 + half), abs=1e-6)


def test_shares_that_all_change_alike_are_not_certain() -> None:
    for before, after in ((0.0, 1.0), (1.0, 1.0), (1.0, 0.0)):
        low, high = paired_interval([before] * 8, [after] * 8, 1) or (0, 0)
        assert -1 <= low < high <= 1 and high - low > 0.15
    # four tries a prompt say more than one
    (few, _), (many, _) = (paired_interval([0.0] * 8, [1.0] * 8, n) or (0, 0) for n in (1, 4))
    assert many > few


def test_the_pairs_that_would_tell() -> None:
    """Differences 0 and 2: mean 1, s = 1.414. n = 14: (1.771 + 0.842) 1.414 / sqrt(14) = 0.987
    is the first below 1; n = 13 gives (1.782 + 0.842) 1.414 / sqrt(13) = 1.029.
    """
    assert pairs_needed([0.0, 2.0]) == 14
    assert pairs_needed([0.0, 2.0], most=13) is None
    assert pairs_needed([9.9, 10.1]) == 2
    assert pairs_needed([1.0]) is None and pairs_needed([1.0, 1.0]) is None
    assert pairs_needed([-1.0, 1.0]) is None


VALUES = torch.tensor([[0.5, -1.0, 2.0], [0.1, 0.2, 0.0]])
LOGPROBS = torch.tensor([[-1.0, -0.5, -3.0], [-2.0, -4.0, 0.0]])


def test_a_verdict_counts_the_tokens_before_it_and_not_the_next_one() -> None:
    found = verdict_logits(VALUES, LOGPROBS, 0.5)
    assert_close(found[0], torch.tensor([0.5, -1.0 - 0.5, 2.0 - 0.75]))
    assert_close(found[1, :2], torch.tensor([0.1, 0.2 - 1.0]))


def test_both_the_head_and_the_likelihood_learn() -> None:
    values, logprobs = VALUES.clone().requires_grad_(), LOGPROBS.clone().requires_grad_()
    verdict_logits(values, logprobs, 0.5)[0, 2].backward()
    assert values.grad is not None and logprobs.grad is not None
    assert values.grad.tolist() == [[0.0, 0.0, 1.0], [0.0] * 3]
    assert logprobs.grad.tolist() == [[0.5, 0.5, 0.0], [0.0] * 3]


@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        ([0.9], [0.1], 1.0),
        ([0.1], [0.9], 0.0),
        ([0.5], [0.5], 0.5),
        # pairs: .8 above both, .4 above .3 and level with .4
        ([0.8, 0.4], [0.3, 0.4], 3.5 / 4),
        ([0.2, 0.2, 0.7], [0.2], 2 / 3),
    ],
)
def test_auc_by_hand(right: list[float], wrong: list[float], expected: float) -> None:
    assert_close(auc(right, wrong), expected)
