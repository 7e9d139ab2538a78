"""Fingerprints of weights: numbers that tell whether a weight is still what it was."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from cory.models.policy import Policy

SUMMED_AT_ONCE = 2**22  # bytes; the sum makes eight of each


def byte_sum(tensor: Tensor) -> int:
    """Sum over the bytes of a tensor: another number, all but surely, once a weight has moved."""
    octets = tensor.contiguous().flatten().view(torch.uint8)
    return sum(int(part.sum(dtype=torch.int64)) for part in torch.split(octets, SUMMED_AT_ONCE))


def weights_fingerprint(policies: Mapping[str, Policy]) -> str:
    """SHA-256 of the policies' trained weights, each whole, in hexadecimal digits."""
    digest = hashlib.sha256()
    for policy in policies.values():
        with policy.whole():
            for name, weight in policy.model.trainable().items():
                digest.update(f"{policy.name} {name} {byte_sum(weight.detach())}\n".encode())
    return digest.hexdigest()
