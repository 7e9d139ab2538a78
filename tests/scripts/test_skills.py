"""The skill model: equations 2 and 3 by hand, and the figure."""

from __future__ import annotations

import pytest

from scripts.skills import (
    ratio,
    specialities,
    trajectory,
    update,
)

QUESTIONS = 500


def test_eq_2_by_hand() -> None:
    # .5 * 1.5, .3 * 1.3, .2 * 1.2 and their sum, 1.38
    assert update([0.5, 0.3, 0.2]) == pytest.approx([0.75 / 1.38, 0.39 / 1.38, 0.24 / 1.38])
    # before the first division by the sum: eq. 2 divides by it itself
    assert update([1.0, 0.6, 0.4]) == pytest.approx(update([0.5, 0.3, 0.2]))
    assert ratio([0.5, 0.3, 0.2], 0) == pytest.approx(1.5 / 1.38)  # eq. 3
    curve = trajectory([0.5, 0.3, 0.2], 2)
    assert curve[1] == update(curve[0]) and curve[2] == update(curve[1])
    assert curve[0] == [0.5, 0.3, 0.2] and len(curve) == 3


def test_three_models_often_choose_the_same_topic() -> None:
    """Independently and with equal chances: 1/9, 6/9, 2/9 for one, two, three different topics."""
    found = specialities(2000, 3, 3, QUESTIONS, 15, seed=0)
    assert found == pytest.approx({1: 1 / 9, 2: 6 / 9, 3: 2 / 9}, abs=0.04)
