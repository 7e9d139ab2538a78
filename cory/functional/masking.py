"""Masked statistics and padding. A mask is True on values that count."""

from collections.abc import Sequence

import torch
from torch import Tensor


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Mean of `x` where `mask` is True; 0 where it is True nowhere.

    x: any shape, float
    mask: same shape, bool
    returns: scalar
    """
    _check_mask(x, mask)
    return torch.where(mask, x, 0.0).sum() / mask.sum().clamp(min=1)


def masked_var(x: Tensor, mask: Tensor) -> Tensor:
    """Unbiased variance of `x` where `mask` is True.

    x: any shape, float
    mask: same shape, bool; at least two True
    returns: scalar
    """
    _check_mask(x, mask)
    count = mask.sum()
    if count < 2:
        raise ValueError(f"a variance needs at least two values, got {int(count)}")
    squares = torch.where(mask, (x - masked_mean(x, mask)) ** 2, 0.0)
    return squares.sum() / (count - 1)


def whiten(x: Tensor, mask: Tensor, epsilon: float = 1e-8) -> Tensor:
    """`x` shifted to mean 0 and scaled to variance 1 over the True entries; 0 elsewhere.

    One value alone is its own mean: it becomes 0.

    x: any shape, float
    mask: same shape, bool
    """
    _check_mask(x, mask)
    if mask.sum() < 2:
        return torch.zeros_like(x)
    scaled = (x - masked_mean(x, mask)) * torch.rsqrt(masked_var(x, mask) + epsilon)
    return torch.where(mask, scaled, 0.0)


def pad_left(rows: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Rows of token ids as one tensor, padded on the left to the longest.

    returns: ids (B, P) int64, mask (B, P) bool
    """
    return _pad(rows, pad_id, left=True)


def pad_right(rows: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Rows of token ids as one tensor, padded on the right to the longest.

    returns: ids (B, R) int64, mask (B, R) bool
    """
    return _pad(rows, pad_id, left=False)


def pad_turns(
    contexts: Sequence[Sequence[int]], responses: Sequence[Sequence[int]], pad_id: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Contexts and responses side by side, each context ending where its response begins.

    contexts: B lists of token ids, none empty
    responses: B lists of token ids; an empty one is a row whose mask is all False
    returns: input_ids (B, L) int64, attention_mask (B, L) bool, response_mask (B, R) bool, R > 0
    """
    context, context_mask = pad_left(contexts, pad_id)
    width = max(1, *map(len, responses))  # a forward pass needs a column even if all are empty
    filled = [[*row, *[pad_id] * (width - len(row))] for row in responses]
    response = torch.tensor(filled, dtype=torch.int64)
    response_mask = torch.arange(width) < torch.tensor([[len(row)] for row in responses])
    return (
        torch.cat([context, response], dim=1),
        torch.cat([context_mask, response_mask], dim=1),
        response_mask,
    )


def aligned_right(
    input_ids: Tensor, attention_mask: Tensor, response_mask: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of `pad_turns` with all padding on the left, as little as the longest row leaves.

    Side by side, contexts and responses are padded to the longest of each, which together may be
    longer than any row.

    input_ids, attention_mask: (B, L)
    response_mask: (B, R) bool
    returns: the same, (B, l), (B, l) and (B, r), r < l; True entries of the masks keep their order
    """
    length, width = input_ids.shape[1], response_mask.shape[1]
    ended = attention_mask.flip(1).int().argmax(1, keepdim=True)  # columns of padding on the right
    columns = (torch.arange(length, device=input_ids.device) - ended) % length
    ids, attended = input_ids.gather(1, columns), attention_mask.gather(1, columns)
    places = (torch.arange(width, device=input_ids.device) - ended) % width
    longest = max(2, int(attention_mask.sum(1).max()))  # 2: all rows may be absent turns
    responses = response_mask.gather(1, places)[:, 1 - longest :]  # no row begins with its response
    return ids[:, -longest:], attended[:, -longest:], responses


def _pad(rows: Sequence[Sequence[int]], pad_id: int, left: bool) -> tuple[Tensor, Tensor]:
    if not rows:
        raise ValueError("cannot pad an empty list of rows")
    width = max(len(row) for row in rows)
    ids = torch.full((len(rows), width), pad_id, dtype=torch.int64)
    mask = torch.zeros((len(rows), width), dtype=torch.bool)
    for i, row in enumerate(rows):
        columns = slice(width - len(row), width) if left else slice(0, len(row))
        ids[i, columns] = torch.tensor(row, dtype=torch.int64)
        mask[i, columns] = True
    return ids, mask


def _check_mask(x: Tensor, mask: Tensor) -> None:
    if mask.dtype != torch.bool or mask.shape != x.shape:
        raise ValueError(
            f"mask must be bool of shape {tuple(x.shape)}, got {mask.dtype} {tuple(mask.shape)}"
        )
