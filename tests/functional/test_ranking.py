from __future__ import annotations

import pytest

from cory.functional.verdicts import auc
from tests.support.close import assert_close


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


@pytest.mark.parametrize(("right", "wrong"), [([], [0.5]), ([0.5], []), ([], [])])
def test_one_label_alone_is_refused(right: list[float], wrong: list[float]) -> None:
    with pytest.raises(ValueError, match="right and wrong"):
        auc(right, wrong)
