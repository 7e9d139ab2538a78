"""The rows that responses are sampled for at a time: they end, leave, and others come."""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from cory.models.sampling.cache import cache_for, joined, occupied
from cory.models.sampling.decoding import PlainPass, RecordedPass
from cory.models.sampling.prefill import prefill


class WorkingRows:
    """Contexts whose responses are under way, with their cache.

    rows: (n,) int64, their numbers
    alive: (n,) bool, False for those that have ended and not left yet
    states: (n, 1, H), from which the next token of each is drawn
    seen: (n, V) bool, tokens of context and response so far; None where nobody asks
    """

    def __init__(
        self,
        model: PreTrainedModel,
        contexts: Sequence[list[int]],
        limit: int,
        pad_id: int,
        graphs: bool,
        penalised: bool,
    ) -> None:
        """limit: the most tokens of a response"""
        self.model, self.contexts, self.limit, self.pad_id = model, contexts, limit, pad_id
        self.kind = RecordedPass if graphs else PlainPass
        self.penalised = penalised
        self.states = torch.empty(0)
        self.clear()

    def clear(self) -> None:
        """Let all rows go."""
        self.rows = torch.empty(0, dtype=torch.long, device=self.model.device)
        self.alive = torch.empty(0, dtype=torch.bool, device=self.model.device)
        self.seen: Tensor | None = None
        self._next: PlainPass | RecordedPass | None = None

    def add(self, numbers: list[int]) -> None:
        """Read these contexts, beside those that are under way."""
        device = self.model.device
        contexts = [self.contexts[number] for number in numbers]
        further = self.limit if self._next is None else 0  # else it is joined at once
        cache = cache_for(self.model, max(map(len, contexts)) + further)
        states, mask = prefill(self.model, contexts, cache, self.pad_id)
        if self._next is not None:
            cache, mask = joined(self.model, [self._next.held(), (cache, mask)], self.limit)
            states = torch.cat([self.states, states])
        self.states, self._next = states, self.kind(self.model, mask, cache)
        self.rows = torch.cat([self.rows, torch.tensor(numbers, device=device)])
        new = torch.ones(len(numbers), dtype=torch.bool, device=device)
        self.alive = torch.cat([self.alive, new])
        if self.penalised:
            seen = seen_tokens(contexts, self.model.config.vocab_size, device)
            self.seen = seen if self.seen is None else torch.cat([self.seen, seen])
        self.passes_left = self.limit  # until those that came last must have ended

    def room(self, longest: int) -> int:
        """Tokens of each row that a cache must hold for those alive, and a context so long."""
        assert self._next is not None
        _, mask = self._next.held()
        return max(longest, occupied(mask[self.alive]) + 1) + self.limit

    def take(self, token: Tensor, ended: Tensor) -> None:
        """Note what was drawn.

        token: (n,) int64
        ended: (n,) bool, rows of which it was the last token
        """
        self.alive = self.alive & ~ended
        if self.seen is not None:
            self.seen.scatter_(1, token[:, None], True)
        self.passes_left -= 1

    def keep_alive(self, token: Tensor) -> Tensor:
        """Let the rows go that have ended; returns the tokens of the others."""
        kept = self.alive.nonzero().squeeze(1)
        self.rows, self.alive = self.rows[kept], self.alive[kept]
        self.seen = None if self.seen is None else self.seen[kept]
        assert self._next is not None
        self._next.keep(kept)
        return token[kept]

    def read(self, token: Tensor) -> None:
        """Read the token (n,) of each row."""
        assert self._next is not None
        self.states = self._next(token[:, None])


def seen_tokens(contexts: list[list[int]], vocabulary: int, device: torch.device) -> Tensor:
    """(B, V) bool, True for the tokens of each context."""
    seen = torch.zeros(len(contexts), vocabulary, dtype=torch.bool, device=device)
    for i, row in enumerate(contexts):
        seen[i, row] = True
    return seen
