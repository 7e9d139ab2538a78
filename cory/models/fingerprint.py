"""A number that tells whether a tensor is still what it was."""

from __future__ import annotations

import torch
from torch import Tensor

SUMMED_AT_ONCE = 2**22  # bytes; the sum makes eight of each


def byte_sum(tensor: Tensor) -> int:
    """Sum over the bytes of a tensor: another number, all but surely, once a weight has moved."""
    octets = tensor.contiguous().flatten().view(torch.uint8)
    pieces = torch.split(octets, SUMMED_AT_ONCE)
    return sum(int(piece.sum(dtype=torch.int64)) for piece in pieces)
