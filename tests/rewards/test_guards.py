"""Answers that please a judge for the wrong reason."""

from __future__ import annotations

import pytest

from cory.rewards.guards import boxed, repeats


@pytest.mark.parametrize(
    ("ids", "longest", "times", "found"),
    [
        ([1, 1, 1, 1], 1, 3, True),
        ([1, 1, 1], 1, 3, False),
        ([2, 1, 1, 1, 1, 2], 1, 3, True),  # in the middle
        ([1, 1, 2, 1, 1], 1, 3, False),  # not in a row
        ([1, 2] * 4, 2, 3, True),
        ([1, 2] * 4, 1, 3, False),  # longer than what is looked for
        ([9, 1, 2, 1, 2, 1, 2, 1, 2], 2, 3, True),
        ([1, 2, 1, 2, 1, 2, 1], 2, 3, False),  # the fourth is not whole
        ([1, 2, 3] * 2, 3, 1, True),
        ([1, 2, 3, 4, 5, 6], 20, 1, False),
        ([], 20, 1, False),
        ([1], 20, 1, False),
    ],
)
def test_runs_of_tokens_are_counted_in_a_row(
    ids: list[int], longest: int, times: int, found: bool
) -> None:
    assert repeats(ids, longest, times) is found


def test_a_boxed_answer_is_seen() -> None:
    assert boxed(r"so it is \boxed{7}.")
    assert not boxed("so it is boxed 7")
