"""scripts/step_documents.py: mistakes in steps, and what others' solutions do to them."""

from __future__ import annotations

import numpy as np
import pytest

from cory.tasks.problems import KINDS
from scripts.step_documents import (
    ALONE,
    CONFIRMED,
    DISPUTED,
    MISLED,
    after,
    mistaken,
    worked,
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_solution_without_mistakes_stays_as_it_is(kind: str) -> None:
    stream = np.random.default_rng(0)
    for _ in range(100):
        solution = KINDS[kind](stream).solution
        assert worked(solution, lambda step, true: true) == solution


def test_later_steps_go_on_from_a_mistake() -> None:
    wrong = {"4 * 6": 34, "41 - 9": 30}
    said = worked("4 * 6 = 24. 7 + 24 = 31. 31 - 9 = 22.", lambda step, true: wrong.get(step, true))
    assert said == "4 * 6 = 34. 7 + 34 = 41. 41 - 9 = 30."
    shared = worked(
        "17 - 5 = 12 stamps to share. 12 / 2 = 6.",
        lambda step, true: 15 if step == "17 - 5" else true,
    )
    assert shared == "17 - 5 = 15 stamps to share. 15 / 2 = 7."


def test_a_mistake_is_another_number_and_none_below_zero() -> None:
    stream = np.random.default_rng(0)
    drawn = [mistaken(value, stream) for value in (0, 1, 15, 99) for _ in range(200)]
    assert min(drawn) >= 0 and len(set(drawn)) > 20
    assert all(mistaken(7, stream) != 7 for _ in range(200))


def share_of_right(others: list[str], step: str = "3 + 4", true: int = 7) -> float:
    stream = np.random.default_rng(0)
    result = after(others, stream)
    return float(np.mean([result(step, true) == true for _ in range(4000)]))


def test_others_make_a_step_surer_or_less_sure() -> None:
    right, wrong = "3 + 4 = 7.", "3 + 4 = 9."
    tolerance = 0.025
    assert share_of_right([]) == pytest.approx(1 - ALONE, abs=tolerance)
    assert share_of_right(["5 + 4 = 9."]) == pytest.approx(1 - ALONE, abs=tolerance)
    assert share_of_right([right, right]) == pytest.approx(1 - CONFIRMED, abs=tolerance)
    assert share_of_right([right, wrong]) == pytest.approx(1 - DISPUTED, abs=tolerance)
    assert share_of_right([wrong]) == pytest.approx(1 - MISLED, abs=tolerance)
    assert CONFIRMED < DISPUTED <= ALONE < MISLED
