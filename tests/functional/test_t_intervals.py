"""Student's t, and intervals of means over seeds."""

from __future__ import annotations

import math
import random

import pytest

from cory.functional.statistics import Z, student_t, t_interval

# 97.5 % quantiles as tables print them
PRINTED = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 9: 2.262, 10: 2.228, 30: 2.042}


@pytest.mark.parametrize(("degrees", "printed"), PRINTED.items())
def test_quantiles_are_those_of_tables(degrees: int, printed: float) -> None:
    assert student_t(degrees) == pytest.approx(printed, abs=5e-4)


def test_with_many_degrees_it_is_the_normal_law() -> None:
    assert student_t(2000) == pytest.approx(Z, abs=2e-3)
    assert all(student_t(n) > student_t(n + 1) > Z for n in range(1, 60))
    with pytest.raises(ValueError, match="0 degrees"):
        student_t(0)


def test_an_interval_by_hand() -> None:
    # mean 2, standard deviation 1, standard error 1 / sqrt(3)
    low, high = t_interval([1.0, 2.0, 3.0]) or (0.0, 0.0)
    assert (low, high) == pytest.approx(
        (2 - 4.302653 / math.sqrt(3), 2 + 4.302653 / math.sqrt(3)), abs=1e-5
    )
    assert t_interval([1.0]) is None and t_interval([]) is None
    assert t_interval([2.0, 2.0]) == (2.0, 2.0)


def test_nineteen_of_twenty_intervals_hold_the_mean() -> None:
    noise = random.Random(0)
    held = 0
    for _ in range(4000):
        low, high = t_interval([noise.gauss(5, 2) for _ in range(3)]) or (0.0, 0.0)
        held += low <= 5 <= high
    assert held / 4000 == pytest.approx(0.95, abs=0.01)
