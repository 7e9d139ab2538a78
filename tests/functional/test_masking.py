from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from cory.functional.masking import (
    masked_mean,
    masked_var,
    pad_left,
    pad_right,
    pad_turns,
    trimmed,
    whiten,
)
from tests.support.close import assert_close

NAN = float("nan")
X = torch.tensor([[1.0, 2.0, NAN], [4.0, NAN, NAN], [NAN, NAN, NAN]])
MASK = torch.tensor([[True, True, False], [True, False, False], [False, False, False]])


def test_mean_counts_only_the_mask() -> None:
    assert_close(masked_mean(X, MASK), 7 / 3)  # (1 + 2 + 4) / 3


def test_mean_of_nothing_is_zero() -> None:
    assert_close(masked_mean(X, torch.zeros_like(MASK)), 0.0)


def test_variance_is_unbiased() -> None:
    # mean 7/3; squares (16 + 1 + 25) / 9 = 14/3, over 3 - 1
    assert_close(masked_var(X, MASK), 7 / 3)


@pytest.mark.parametrize("count", [0, 1])
def test_variance_needs_two_values(count: int) -> None:
    with pytest.raises(ValueError, match="at least two"):
        masked_var(torch.zeros(3), torch.arange(3) < count)


def test_whiten_by_hand() -> None:
    # mean 2, unbiased variance 2: (1 - 2) / sqrt(2)
    x, mask = torch.tensor([1.0, 3.0, NAN]), torch.tensor([True, True, False])
    assert_close(whiten(x, mask), [-(0.5**0.5), 0.5**0.5, 0.0])


def test_whiten_gives_mean_zero_and_variance_one() -> None:
    torch.manual_seed(0)
    x, mask = 5 + 3 * torch.randn(8, 6), torch.rand(8, 6) < 0.6
    inside = whiten(x, mask)[mask]
    assert_close(inside.mean(), 0.0)
    assert_close(inside.var(), 1.0)


def test_whiten_survives_equal_values() -> None:
    assert_close(whiten(torch.full((3,), 7.0), torch.ones(3, dtype=torch.bool)), [0.0] * 3)


def test_epsilon_is_added_to_the_variance() -> None:
    # variance 2, epsilon 2: divided by sqrt(4)
    both = torch.ones(2, dtype=torch.bool)
    assert_close(whiten(torch.tensor([1.0, 3.0]), both, epsilon=2.0), [-0.5, 0.5])


@pytest.mark.parametrize("statistic", [masked_mean, masked_var])
def test_padding_changes_no_statistic(statistic: Callable[[Tensor, Tensor], Tensor]) -> None:
    wide = torch.cat([X, torch.full((3, 4), 99.0)], dim=1)
    wide_mask = torch.cat([MASK, torch.zeros(3, 4, dtype=torch.bool)], dim=1)
    assert_close(statistic(wide, wide_mask), statistic(X, MASK))


@pytest.mark.parametrize("function", [masked_mean, masked_var, whiten])
@pytest.mark.parametrize("mask", [torch.ones(2, 3), torch.ones(3, 2, dtype=torch.bool)])
def test_mask_must_be_bool_and_fit(
    function: Callable[[Tensor, Tensor], Tensor], mask: Tensor
) -> None:
    with pytest.raises(ValueError, match="mask must be bool"):
        function(torch.zeros(2, 3), mask)


@pytest.mark.parametrize(
    ("pad", "ids", "mask"),
    [
        (pad_left, [[1, 2, 3], [9, 9, 4], [9, 9, 9]], [[1, 1, 1], [0, 0, 1], [0, 0, 0]]),
        (pad_right, [[1, 2, 3], [4, 9, 9], [9, 9, 9]], [[1, 1, 1], [1, 0, 0], [0, 0, 0]]),
    ],
)
def test_padding(
    pad: Callable[[Sequence[Sequence[int]], int], tuple[Tensor, Tensor]],
    ids: list[list[int]],
    mask: list[list[int]],
) -> None:
    padded, real = pad([[1, 2, 3], [4], []], 9)
    assert padded.dtype == torch.int64
    assert padded.tolist() == ids
    assert real.dtype == torch.bool
    assert real.int().tolist() == mask


def test_pad_id_inside_a_row_still_counts() -> None:
    # EOS often doubles as the padding token
    assert pad_right([[1, 9]], 9)[1].tolist() == [[True, True]]


def test_columns_that_are_padding_in_all_rows_are_left_out() -> None:
    ids, attention, response = pad_turns([[1, 2, 3, 4], [5], [6, 7]], [[8], [8, 9, 10], []], 0)
    whole = trimmed(ids, attention, response)
    assert all(map(torch.equal, whole, (ids, attention, response)))
    short = trimmed(ids[1:2], attention[1:2], response[1:2])
    assert [t.int().tolist() for t in short] == [[[5, 8, 9, 10]], [[1, 1, 1, 1]], [[1, 1, 1]]]
    two = trimmed(ids[[0, 2]], attention[[0, 2]], response[[0, 2]])
    assert [t.int().tolist() for t in two] == [
        [[1, 2, 3, 4, 8], [0, 0, 6, 7, 0]], [[1, 1, 1, 1, 1], [0, 0, 1, 1, 0]], [[1], [0]],
    ]  # fmt: skip
    silent = trimmed(ids[2:], attention[2:], response[2:])
    assert [t.int().tolist() for t in silent] == [[[6, 7, 0]], [[1, 1, 0]], [[0]]]


@pytest.mark.parametrize("pad", [pad_left, pad_right])
def test_no_rows_cannot_be_padded(pad: Callable[[list[list[int]], int], object]) -> None:
    with pytest.raises(ValueError, match="empty list"):
        pad([], 0)
