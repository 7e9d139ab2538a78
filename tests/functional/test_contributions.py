"""What prompts contribute to a ratio and to an AUC: by hand."""

from __future__ import annotations

import pytest

from cory.functional.statistics import contributions, mean
from cory.functional.verdicts import auc, auc_contributions
from tests.support.close import assert_close


def test_contributions_have_the_ratio_as_their_mean() -> None:
    sums, counts = [3.0, 0.0, 5.0], [4.0, 2.0, 6.0]
    found = contributions(sums, counts)
    assert_close(mean(found), 8 / 12)
    # the first word's games went a third better than the ratio says: 3 of 4 instead of 8 of 12
    assert_close(found[0], 8 / 12 + (3 - 4 * 8 / 12) / 4)
    assert_close(contributions([1.0, 2.0], [2.0, 2.0]), [0.5, 1.0])
    with pytest.raises(ValueError, match="nothing was counted"):
        contributions([0.0], [0.0])


def test_contributions_to_an_auc() -> None:
    groups = [([0.9, 0.4], [0.4]), ([0.7], []), ([], [0.1, 0.8])]
    found = auc_contributions(groups)
    assert_close(mean(found), auc([0.9, 0.4, 0.7], [0.4, 0.1, 0.8]))
    # the second: its right answer lies above 2 of 3 wrong ones, as the AUC's mean has 2/3 + 1/18
    assert_close(found[1], mean(found) + 3 * (2 / 3 - mean(found)) / 3)
