from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from cory.functional.verdicts import auc
from tests.support.close import assert_close


def by_pairs(right: list[float], wrong: list[float]) -> float:
    """Every pair looked at: one for a right answer above a wrong one, half for a tie."""
    won = [1.0 if r > w else 0.5 if r == w else 0.0 for r, w in product(right, wrong)]
    return sum(won) / len(won)


@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        ([0.9], [0.1], 1.0),
        ([0.1], [0.9], 0.0),
        ([0.5], [0.5], 0.5),
        # pairs: .8 above both, .4 above .3 and level with .4
        ([0.8, 0.4], [0.3, 0.4], 3.5 / 4),
        ([0.2, 0.2, 0.7], [0.2], 2 / 3),
    ],
)
def test_by_hand(right: list[float], wrong: list[float], expected: float) -> None:
    assert_close(auc(right, wrong), expected)


def test_ties_and_all_agree_with_looking_at_every_pair() -> None:
    stream = np.random.default_rng(0)
    for _ in range(50):
        # few different scores, so that there are many ties
        right = (stream.integers(0, 6, stream.integers(1, 20)) / 5).tolist()
        wrong = (stream.integers(0, 6, stream.integers(1, 20)) / 5).tolist()
        assert auc(right, wrong) == pytest.approx(by_pairs(right, wrong), abs=1e-12)


@pytest.mark.parametrize(("right", "wrong"), [([], [0.5]), ([0.5], []), ([], [])])
def test_one_label_alone_is_refused(right: list[float], wrong: list[float]) -> None:
    with pytest.raises(ValueError, match="right and wrong"):
        auc(right, wrong)
