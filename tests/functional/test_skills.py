"""The skill model: equations 2 to 4 by hand, their consequences, and the figure."""

from __future__ import annotations

from itertools import pairwise

import pytest

from cory.functional.skills import (
    ratio,
    specialities,
    starts,
    trajectories,
    trajectory,
    update,
)

QUESTIONS, ITERATIONS = 500, 40


def test_eq_2_by_hand() -> None:
    # .5 * 1.5, .3 * 1.3, .2 * 1.2 and their sum, 1.38
    assert update([0.5, 0.3, 0.2]) == pytest.approx([0.75 / 1.38, 0.39 / 1.38, 0.24 / 1.38])
    # before the first division by the sum: eq. 2 divides by it itself
    assert update([1.0, 0.6, 0.4]) == pytest.approx(update([0.5, 0.3, 0.2]))


def test_eq_3_is_what_happens() -> None:
    assert ratio([0.5, 0.3, 0.2], 0) == pytest.approx(1.5 / 1.38)
    for skills in starts(20, 3, QUESTIONS, seed=0):
        after = update(skills)
        for topic in range(3):
            assert ratio(skills, topic) == pytest.approx(after[topic] / skills[topic])


def test_eq_4_the_largest_skill_never_falls() -> None:
    for skills in starts(200, 3, 30, seed=1):
        largest = skills.index(max(skills))
        assert ratio(skills, largest) >= 1
        assert ratio(skills, skills.index(min(skills))) <= 1


def test_equal_skills_stay_and_a_small_difference_grows_by_a_quarter() -> None:
    assert trajectory([1 / 3] * 3, ITERATIONS)[-1] == pytest.approx([1 / 3] * 3)
    step = 1e-6
    moved = update([1 / 3 + step, 1 / 3 - step, 1 / 3])
    assert (moved[0] - 1 / 3) / step == pytest.approx(1.25, rel=1e-4)


def test_models_specialise_in_what_they_were_best_at() -> None:
    for curve in trajectories(8, 3, QUESTIONS, ITERATIONS, seed=5):
        first, last = curve[0], curve[-1]
        assert sorted(first)[-1] > sorted(first)[-2], "no tie among these"
        best = first.index(max(first))
        assert last[best] > 0.99
        assert all(after[best] > before[best] for before, after in pairwise(curve[:20]))
        assert all(sum(skills) == pytest.approx(1) for skills in curve)


def test_first_skills_are_near_a_third_and_follow_the_seed() -> None:
    first = starts(3, 3, QUESTIONS, seed=0)
    assert first == [curve[0] for curve in trajectories(3, 3, QUESTIONS, 1, seed=0)]
    assert all(abs(skill - 1 / 3) < 0.1 for skills in first for skill in skills)
    assert first != starts(3, 3, QUESTIONS, seed=1)


def test_three_models_often_choose_the_same_topic() -> None:
    """Independently and with equal chances: 1/9, 6/9, 2/9 for one, two, three different topics."""
    found = specialities(2000, 3, 3, QUESTIONS, 15, seed=0)
    assert found == pytest.approx({1: 1 / 9, 2: 6 / 9, 3: 2 / 9}, abs=0.04)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="not all 0"):
        update([0.0, 0.0])
    with pytest.raises(ValueError, match="not be negative"):
        update([0.7, -0.1])
    with pytest.raises(ValueError, match="questions=1 are too few"):
        starts(100, 3, 1, seed=0)
