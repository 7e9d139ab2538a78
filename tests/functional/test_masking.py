from __future__ import annotations

import pytest
import torch

from cory.functional.logprobs import (
    aligned_right,
    masked_mean,
    pad_turns,
    padded,
    whiten,
)
from tests.support.close import assert_close

NAN = float("nan")
X = torch.tensor([[1.0, 2.0, NAN], [4.0, NAN, NAN], [NAN, NAN, NAN]])
MASK = torch.tensor([[True, True, False], [True, False, False], [False, False, False]])


def test_mean_counts_only_the_mask() -> None:
    assert_close(masked_mean(X, MASK), 7 / 3)  # (1 + 2 + 4) / 3
    assert_close(masked_mean(X, torch.zeros_like(MASK)), 0.0)


def test_whiten_survives_equal_values() -> None:
    assert_close(whiten(torch.full((3,), 7.0), torch.ones(3, dtype=torch.bool)), [0.0] * 3)


@pytest.mark.parametrize(
    ("side", "ids", "mask"),
    [
        ("left", [[1, 2, 3], [9, 9, 4], [9, 9, 9]], [[1, 1, 1], [0, 0, 1], [0, 0, 0]]),
        ("right", [[1, 2, 3], [4, 9, 9], [9, 9, 9]], [[1, 1, 1], [1, 0, 0], [0, 0, 0]]),
    ],
)
def test_padding(side: str, ids: list[list[int]], mask: list[list[int]]) -> None:
    rows, real = padded([[1, 2, 3], [4], []], 9, side)
    assert rows.dtype == torch.int64
    assert rows.tolist() == ids
    assert real.dtype == torch.bool
    assert real.int().tolist() == mask


def test_padding_moves_to_the_left() -> None:
    rows = pad_turns([[1, 2, 3, 4], [5], [6, 7]], [[8], [8, 9, 10], []], 0)
    ids, attention, response = (t.int().tolist() for t in aligned_right(*rows))
    assert ids == [[0, 1, 2, 3, 4, 8][1:], [0, 5, 8, 9, 10], [0, 0, 0, 6, 7]]
    assert attention == [[1, 1, 1, 1, 1], [0, 1, 1, 1, 1], [0, 0, 0, 1, 1]]
    assert response == [[0, 0, 1], [1, 1, 1], [0, 0, 0]]


def test_padding_inside_a_response_window() -> None:
    """A mask of single tokens moves with its row; it need not begin with the response."""
    ids, attention, _ = pad_turns([[1], [2]], [[3, 4], [5, 6, 7]], 0)
    last = torch.tensor([[False, True, False], [False, False, True]])
    moved = aligned_right(ids, attention, last)
    assert moved[0].tolist() == [[0, 1, 3, 4], [2, 5, 6, 7]]
    assert moved[2].int().tolist() == [[0, 0, 1], [0, 0, 1]]
