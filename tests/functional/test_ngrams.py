"""Repetition within and between texts, by hand."""

from __future__ import annotations

import pytest

from cory.functional.logprobs import copied_share, distinct_share


@pytest.mark.parametrize(
    ("texts", "n", "expected"),
    [
        ([[5, 5, 5, 5]], 2, 1 / 3),
        ([[1, 2], [1, 2]], 1, 2 / 4),  # over all texts, not within each
        ([[1, 2], [2, 1]], 2, 1.0),  # no pair spans two texts
        ([[1], []], 2, 0.0),
    ],
)
def test_distinct_share(texts: list[list[int]], n: int, expected: float) -> None:
    assert distinct_share(texts, n) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("tokens", "source", "expected"),
    [
        ([1, 2, 3, 4, 5], [9, 1, 2, 3, 4, 9], 1 / 2),  # 1234 is there, 2345 is not
        ([1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1], 0.0),  # the same tokens, other runs
        ([1, 2, 3, 4, 1, 2, 3, 4], [1, 2, 3, 4], 2 / 5),  # repeated runs count each time
        ([2, 3], [1, 2, 3, 4], 1.0),  # fewer than n tokens: the whole text is one run
        ([3, 2], [1, 2, 3, 4], 0.0),
        ([], [1, 2, 3, 4], 0.0),
    ],
)
def test_copied_share_of_runs_of_four(
    tokens: list[int], source: list[int], expected: float
) -> None:
    assert copied_share(tokens, source, 4) == pytest.approx(expected)
