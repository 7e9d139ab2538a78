from __future__ import annotations

import pytest

from cory.functional.advantages import RunningMoments, scaled_credits
from tests.support.close import assert_close

# mean 2, population variance 8 / 3, unbiased deviation 2
SEEN = [0.0, 2.0, 4.0]


def moments_of(*batches: list[float]) -> RunningMoments:
    moments = RunningMoments()
    for batch in batches:
        moments.update(batch)
    return moments


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


def test_equal_numbers_that_round_differently_count_as_a_deviation_of_one() -> None:
    # three times 0.1 has a variance of about 1e-34 in binary fractions
    moments = RunningMoments()
    moments.update([0.1] * 3)
    moments.update([0.1] * 5)
    assert_close(scaled_credits([0.1], moments, "scale", None), [0.1])
