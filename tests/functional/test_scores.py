from __future__ import annotations

import statistics

import pytest

from cory.functional.scores import RunningMoments, adapted_kl_coef, scaled_credits
from tests.support.close import assert_close

# mean 2, population variance 8 / 3, unbiased deviation 2
SEEN = [0.0, 2.0, 4.0]


def moments_of(*batches: list[float]) -> RunningMoments:
    moments = RunningMoments()
    for batch in batches:
        moments.update(batch)
    return moments


def test_moments_of_one_batch() -> None:
    moments = moments_of(SEEN)
    assert_close([moments.count, moments.mean, moments.variance], [3.0, 2.0, 8 / 3])
    assert_close(moments.std, 2.0)


def test_batches_merge_into_the_whole() -> None:
    batches = [[0.5, -3.0, 7.0], [100.0], [2.0, 2.5], [-40.0, 8.0, 1.0, 0.0]]
    everything = [x for batch in batches for x in batch]
    moments = moments_of(*batches)
    assert moments.count == 10
    assert_close(moments.mean, statistics.fmean(everything))
    assert_close(moments.variance, statistics.pvariance(everything))
    assert_close(moments.std, statistics.stdev(everything))


@pytest.mark.parametrize(
    ("scaling", "clip", "expected"),
    [
        ("none", None, [6.0, 2.0, -4.0]),
        ("none", 3.0, [3.0, 2.0, -3.0]),
        ("scale", None, [3.0, 1.0, -2.0]),  # over 2
        ("scale", 1.5, [1.5, 1.0, -1.5]),  # clipped after scaling
        ("normalise", None, [2.0, 0.0, -3.0]),  # less 2, over 2
        ("normalise", 2.5, [2.0, 0.0, -2.5]),
    ],
)
def test_scaling(scaling: str, clip: float | None, expected: list[float]) -> None:
    assert_close(scaled_credits([6.0, 2.0, -4.0], moments_of(SEEN), scaling, clip), expected)


def test_scaling_leaves_numbers_and_moments_alone() -> None:
    numbers, moments = [6.0, 2.0], moments_of(SEEN)
    scaled_credits(numbers, moments, "normalise", 0.1)
    assert numbers == [6.0, 2.0]
    assert moments == moments_of(SEEN)


def test_unknown_scaling() -> None:
    with pytest.raises(ValueError, match="normalize"):
        scaled_credits([1.0], moments_of(SEEN), "normalize", None)


@pytest.mark.parametrize(
    ("kl", "expected"),
    [
        # coefficient 0.5, target 6, 50 turns of a horizon of 100
        (6.0, 0.5),
        (6.6, 0.525),  # 10 % over: 0.5 * (1 + 0.1 / 2)
        (5.4, 0.475),
        (60.0, 0.55),  # held at 20 %: 0.5 * (1 + 0.2 / 2)
        (0.0, 0.45),
    ],
)
def test_kl_coefficient_follows_the_kl(kl: float, expected: float) -> None:
    assert_close(adapted_kl_coef(0.5, kl, target=6.0, horizon=100, turns=50), expected)


def test_equal_numbers_that_round_differently_count_as_a_deviation_of_one() -> None:
    # three times 0.1 has a variance of about 1e-34 in binary fractions
    moments = RunningMoments()
    moments.update([0.1] * 3)
    moments.update([0.1] * 5)
    assert_close(scaled_credits([0.1], moments, "scale", None), [0.1])
