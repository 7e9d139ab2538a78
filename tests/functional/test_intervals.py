"""Intervals of means and of paired differences, and the pairs that would tell: by hand."""

from __future__ import annotations

import math

import pytest

from cory.functional.statistics import mean_interval, paired_interval, pairs_needed

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
