"""Majority votes, by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

import numpy as np
import pytest

from cory.functional.votes import agreement, vote_score, winners


@pytest.mark.parametrize(
    ("answers", "score"),
    [
        ([7, 7, 3], 1.0),
        ([3, 3, 7], 0.0),
        ([7, 3], 0.5),
        ([7, 3, 5], 1 / 3),
        ([3, 5, 9], 0.0),
        ([7, 7, 3, 3], 0.5),
        ([7, 7, 3, 3, 5], 0.5),  # the single vote is out
        ([7], 1.0),
        ([None, None, 7], 0.0),  # unreadable answers are votes, too
        ([None, 7], 1.0),  # but lose ties
        ([None, 7, 3], 0.5),
        ([None, None, 7, 7], 1.0),
        ([None, None], 0.0),
        ([None], 0.0),
    ],
)
def test_ties_are_scored_as_expectation(answers: list[Hashable | None], score: float) -> None:
    assert vote_score(answers, 7, "expected") == pytest.approx(score)


def test_random_ties_pick_one_winner_each_as_often_as_the_others() -> None:
    stream = np.random.default_rng(0)
    scores = Counter(vote_score([7, 3, 5, 5, 7], 7, "random", stream) for _ in range(2000))
    assert set(scores) == {0.0, 1.0}
    assert scores[1.0] / 2000 == pytest.approx(0.5, abs=0.05)
    assert vote_score([7, 7, 3], 7, "random", stream) == 1.0


def test_lexicographic_ties_take_the_first_text() -> None:
    assert vote_score(["b", "a"], "a", "lexicographic") == 1.0
    assert vote_score(["b", "a"], "b", "lexicographic") == 0.0
    assert vote_score([10, 9], 10, "lexicographic") == 1.0  # '10' stands before '9'


def test_winners_keep_the_order_in_which_they_came() -> None:
    assert winners([3, 7, 7, 3, 1]) == [3, 7]
    assert winners([None, None, 2]) == [None]


def test_agreement_does_not_count_what_cannot_be_read() -> None:
    assert agreement([7, 7, 3]) == pytest.approx(2 / 3)
    assert agreement([None, None, 3]) == pytest.approx(1 / 3)
    assert agreement([None, None]) == 0.0


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one answer"):
        winners([])
    with pytest.raises(ValueError, match="unknown rule 'first'"):
        vote_score([7], 7, "first")
    with pytest.raises(ValueError, match="needs a stream"):
        vote_score([7, 3], 7, "random")
