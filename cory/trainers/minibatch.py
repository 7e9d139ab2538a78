"""Optimiser steps on rows of text: what to read and what to learn, in minibatches of one size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from cory import distributed
from cory.functional.masking import pad_turns
from cory.models.policy import Policy


class Row(Protocol):
    """A text to learn from; tokens of the context are only read."""

    @property
    def context_ids(self) -> list[int]:
        """Not empty."""
        ...

    @property
    def response_ids(self) -> list[int]:
        """Empty: nothing is learnt from it."""
        ...


R = TypeVar("R", bound=Row)
# (rows of a microbatch, logprobs (B, R), values (B, R), mask (B, R)) -> the microbatch's part of
# the minibatch's loss, and numbers that are added up over the minibatch
Objective = Callable[
    [Sequence["R | None"], Tensor, Tensor, Tensor], tuple[Tensor, Mapping[str, Tensor]]
]


@dataclass(frozen=True)
class Stepped:
    """One optimiser step."""

    sums: dict[str, float]  # over the minibatch and all processes
    gradient_norm: float
    skipped: bool  # because of an overflow in fp16


def minibatches(
    rows: int, size: int, epochs: int, stream: torch.Generator
) -> Iterator[list[int | None]]:
    """Indices of every minibatch of every epoch; each epoch in an order of its own.

    The last minibatch of an epoch is filled up with None, so that all have the same number of rows:
    None stands for an absent row, of which no token counts.
    """
    for _ in range(epochs):
        order = torch.randperm(rows, generator=stream).tolist()
        for start in range(0, rows, size):
            chosen = order[start : start + size]
            yield [*chosen, *[None] * (size - len(chosen))]


def one_step(
    voice: Policy, rows: Sequence[R | None], microbatch: int, objective: Objective[R]
) -> Stepped:
    """One optimiser step on a minibatch, filled up until every process has as many rows."""
    rows = [*rows, *[None] * (-len(rows) % distributed.count())]
    own = rows[distributed.own_rows(len(rows))]
    sums: dict[str, Tensor] = {}
    norm = None
    for start in range(0, len(own), microbatch):
        part = own[start : start + microbatch]
        ids, attended, mask = tensors_of(voice, part)
        logprobs, values = voice.engine(ids, attended, mask)
        loss, numbers = objective(part, logprobs, values, mask)
        voice.engine.backward(loss)
        norm = voice.engine.step()
        sums |= {key: sums.get(key, torch.zeros(())) + n for key, n in numbers.items()}
    assert norm is not None, "the last microbatch steps the optimiser"
    totals = distributed.summed(torch.stack(list(sums.values()))).tolist()
    return Stepped(dict(zip(sums, totals, strict=True)), norm, voice.engine.skipped)


def tensors_of(voice: Policy, rows: Sequence[Row | None]) -> tuple[Tensor, Tensor, Tensor]:
    """input_ids (B, L), attention_mask (B, L) and response_mask (B, R) of rows."""
    pad, device = voice.team.tokenizer.pad_token_id, voice.team.device
    ids, attended, mask = pad_turns(
        # attention needs something to look at, in absent rows, too
        [[pad] if row is None else row.context_ids for row in rows],
        [[] if row is None else row.response_ids for row in rows],
        pad,
    )
    return ids.to(device), attended.to(device), mask.to(device)
