"""pass@k, its interval and what prompts contribute, by hand and by table."""

from __future__ import annotations

import pytest

from cory.functional.statistics import (
    contributions,
    interval,
    mean,
    pass_at_k,
    wilson,
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


@pytest.mark.parametrize(
    ("passed", "of", "low", "high"),
    [
        # bounds as tables of the interval print them
        (0, 10, 0.0, 0.2775),
        (1, 10, 0.0179, 0.4042),
        (10, 10, 0.7225, 1.0),
        (15, 148, 0.0624, 0.1605),
    ],
)
def test_wilsons_interval_by_table(passed: int, of: int, low: float, high: float) -> None:
    found = wilson(passed / of, of)
    assert [round(bound, 4) for bound in found] == [low, high]
    # values of 0 and 1 alone give the same, however many responses were drawn
    assert interval([1.0] * passed + [0.0] * (of - passed), of) == pytest.approx(found)


def test_values_between_0_and_1_tell_more_than_outcomes() -> None:
    # mean 0.4, variance 0.02: as much spread as 0.24 / 0.02 = 12 outcomes each
    values = [0.4 - 0.02**0.5, 0.4 + 0.02**0.5] * 5
    assert_close(interval(values, 1000), wilson(0.4, 10 * 12))
    # never more than there are responses
    assert_close(interval(values, 40), wilson(0.4, 40))
    assert_close(interval([0.5] * 10, 160), wilson(0.5, 160))


def test_where_every_prompt_failed_the_interval_is_no_point() -> None:
    low, high = interval([0.0] * 20, 320)
    assert low == 0 and 0.15 < high < 0.17  # Z^2 / (20 + Z^2), by prompts and not by responses
    assert interval([1.0] * 20, 320) == pytest.approx((1 - high, 1.0))


def test_contributions_have_the_ratio_as_their_mean() -> None:
    sums, counts = [3.0, 0.0, 5.0], [4.0, 2.0, 6.0]
    found = contributions(sums, counts)
    assert_close(mean(found), 8 / 12)
    # the first word's games went a third better than the ratio says: 3 of 4 instead of 8 of 12
    assert_close(found[0], 8 / 12 + (3 - 4 * 8 / 12) / 4)
    assert_close(contributions([1.0, 2.0], [2.0, 2.0]), [0.5, 1.0])
