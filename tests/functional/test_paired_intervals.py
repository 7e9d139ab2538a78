"""Intervals of paired differences: against printed tables, by hand, and how often they hold."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cory.functional.ranking import auc, auc_contributions
from cory.functional.statistics import contributions, mean, paired_interval, student_t
from tests.support.close import assert_close


@pytest.mark.parametrize(
    ("degrees", "printed"),
    [(1, 12.7062), (2, 4.3027), (5, 2.5706), (10, 2.2281), (29, 2.0452), (120, 1.9799),
     (199, 1.97196), (200, 1.97190), (1000, 1.96234)],
)  # fmt: skip
def test_students_quantile(degrees: int, printed: float) -> None:
    assert abs(student_t(degrees) - printed) < 5e-5


def test_no_degrees_are_refused() -> None:
    with pytest.raises(ValueError, match="0 degrees"):
        student_t(0)


def test_by_hand() -> None:
    # differences 1, 2, 6: mean 3, variance 7, standard error sqrt(7 / 3)
    low, high = paired_interval([1, 1, 1], [2, 3, 7]) or (0, 0)
    half = 4.302653 * math.sqrt(7 / 3)
    assert_close([low, high], [3 - half, 3 + half])
    # shares: 1 rose, none fell, 3 as before; as if 2 pairs more: sum 1, squares 2, of 6
    low, high = paired_interval([0, 1, 0, 1], [1, 1, 0, 1], 1) or (0, 0)
    half = 3.182446 * math.sqrt((2 / 6 - 1 / 36) / 6)
    assert_close([low, high], [1 / 6 - half, 1 / 6 + half])


def test_what_is_alike_on_every_prompt_of_before_shifts_nothing() -> None:
    """The interval is of differences: how much prompts differ among themselves plays no part."""
    rng = np.random.default_rng(0)
    before, change = rng.normal(0, 10, 30), rng.normal(0.5, 0.1, 30)
    found = paired_interval([*before], [*(before + change)])
    assert found is not None
    assert_close(found, paired_interval([0.0] * 30, [*change]))
    assert 0.4 < found[0] < found[1] < 0.6


def test_fewer_than_two_pairs_have_none_and_unequal_numbers_are_refused() -> None:
    assert paired_interval([1.0], [2.0]) is None
    assert paired_interval([], []) is None
    with pytest.raises(ValueError, match="2 values before, 1 after"):
        paired_interval([1.0, 2.0], [1.0])


def test_shares_that_all_change_alike_are_not_certain() -> None:
    for before, after in ((0.0, 1.0), (1.0, 1.0), (1.0, 0.0)):
        low, high = paired_interval([before] * 8, [after] * 8, 1) or (0, 0)
        assert -1 <= low < high <= 1 and high - low > 0.2
    # four tries a prompt say more than one
    (few, _), (many, _) = (paired_interval([0.0] * 8, [1.0] * 8, n) or (0, 0) for n in (1, 4))
    assert many > few


@pytest.mark.slow
@pytest.mark.parametrize("count", [12, 64])
def test_it_holds_the_true_difference_in_95_of_100_cases(count: int) -> None:
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(2000):
        before = rng.random(count) < 0.5
        after = np.where(rng.random(count) < 0.7, before, rng.random(count) < 0.8)
        truth = 0.3 * (0.8 - 0.5)
        low, high = paired_interval([*map(float, before)], [*map(float, after)], 1) or (0, 0)
        held += low <= truth <= high
    assert 0.94 < held / 2000 < (0.985 if count > 50 else 0.999)  # wide where there are few


def test_contributions_have_the_ratio_as_their_mean() -> None:
    sums, counts = [3.0, 0.0, 5.0], [4.0, 2.0, 6.0]
    found = contributions(sums, counts)
    assert_close(mean(found), 8 / 12)
    # the first word's games went a third better than the ratio says: 3 of 4 instead of 8 of 12
    assert_close(found[0], 8 / 12 + (3 - 4 * 8 / 12) / 4)
    assert_close(contributions([1.0, 2.0], [2.0, 2.0]), [0.5, 1.0])
    with pytest.raises(ValueError, match="nothing was counted"):
        contributions([0.0], [0.0])


def test_contributions_to_an_auc() -> None:
    groups = [([0.9, 0.4], [0.4]), ([0.7], []), ([], [0.1, 0.8])]
    found = auc_contributions(groups)
    assert_close(mean(found), auc([0.9, 0.4, 0.7], [0.4, 0.1, 0.8]))
    # the second: its right answer lies above 2 of 3 wrong ones, as the AUC's mean has 2/3 + 1/18
    assert_close(found[1], mean(found) + 3 * (2 / 3 - mean(found)) / 3)


def test_their_spread_is_that_of_the_auc() -> None:
    """Against the spread over many samples of questions."""
    rng = np.random.default_rng(2)

    def sample() -> list[tuple[list[float], list[float]]]:
        hard = rng.normal(0, 0.5, 60)
        return [([*rng.normal(h + 0.8, 1, 2)], [*rng.normal(h, 1, 2)]) for h in hard]

    samples = [auc_contributions(sample()) for _ in range(300)]
    spread = np.std([mean(own) for own in samples])
    told = np.mean([np.std(own, ddof=1) / math.sqrt(len(own)) for own in samples])
    assert 0.85 < told / spread < 1.15
