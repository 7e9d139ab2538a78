"""Quantiles of Student's t."""

from __future__ import annotations

import pytest

from cory.functional.statistics import Z, student_t

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
