"""Majority votes, by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

import numpy as np
import pytest

from cory.functional.votes import VoteRule, agreement

DROPPED, COUNTED = VoteRule("expected", "dropped"), VoteRule("expected", "counted")


@pytest.mark.parametrize("rule", [DROPPED, COUNTED])
@pytest.mark.parametrize(
    ("answers", "score"),
    [
        ([7, 7, 3], 1.0),
        ([3, 3, 7], 0.0),
        ([7, 3], 0.5),
        ([7, 3, 5], 1 / 3),
        ([7, 7, 3, 3, 5], 0.5),  # the single vote is out
        ([None, 7], 1.0),  # unreadable answers lose ties under both rules
        ([None, 7, 3], 0.5),
        ([None, None], 0.0),
    ],
)
def test_ties_are_scored_as_expectation(
    rule: VoteRule, answers: list[Hashable | None], score: float
) -> None:
    assert rule.score(answers, 7) == pytest.approx(score)


@pytest.mark.parametrize(
    ("answers", "dropped", "counted"),
    [
        ([None, None, 7], [7], [None]),
        ([7, None, 3, 3, None, None], [3], [None]),
        ([None, None, 3, 3], [3], [3]),
        ([None, None], [None], [None]),  # nobody's answer could be read
    ],
)
def test_unreadable_answers_are_dropped_or_counted(
    answers: list[Hashable | None], dropped: list[Hashable], counted: list[Hashable]
) -> None:
    assert DROPPED.winners(answers) == dropped
    assert COUNTED.winners(answers) == counted
    for rule, expected in ((DROPPED, dropped), (COUNTED, counted)):
        assert rule.score(answers, 7) == pytest.approx((7 in expected) / len(expected))
        elected = VoteRule("lexicographic", rule.unreadable).elected(
            answers, np.random.default_rng(0)
        )
        assert elected == min(expected, key=str)


def test_random_ties_pick_one_winner_each_as_often_as_the_others() -> None:
    stream = np.random.default_rng(0)
    rule = VoteRule("random", "counted")
    scores = Counter(rule.score([7, 3, 5, 5, 7], 7, stream) for _ in range(2000))
    assert set(scores) == {0.0, 1.0}
    assert scores[1.0] / 2000 == pytest.approx(0.5, abs=0.05)
    assert rule.score([7, 7, 3], 7, stream) == 1.0


def test_lexicographic_ties_take_the_first_text() -> None:
    rule = VoteRule("lexicographic", "counted")
    assert rule.score(["b", "a"], "a") == 1.0
    assert rule.score(["b", "a"], "b") == 0.0
    assert rule.score([10, 9], 10) == 1.0  # '10' stands before '9'


def test_winners_keep_the_order_in_which_they_came() -> None:
    assert COUNTED.winners([3, 7, 7, 3, 1]) == [3, 7]


def test_agreement_does_not_count_what_cannot_be_read() -> None:
    assert agreement([7, 7, 3]) == pytest.approx(2 / 3)
    assert agreement([None, None, 3]) == pytest.approx(1 / 3)
    assert agreement([None, None]) == 0.0
