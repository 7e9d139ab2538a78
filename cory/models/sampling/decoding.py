"""Passes of one token per row, as they come or as recorded CUDA graphs."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import DynamicCache, PreTrainedModel

from cory.models.sampling.cache import PreallocatedLayer
from cory.models.sampling.prefill import read


class PlainPass:
    """Reads the next token of every row, in a pass that is as long as what was read before."""

    def __init__(self, model: PreTrainedModel, mask: Tensor, cache: DynamicCache) -> None:
        """mask: (B, P) bool of what the cache holds"""
        self.model, self.mask, self.cache = model, mask, cache

    def __call__(self, ids: Tensor) -> Tensor:
        """Last hidden states (B, 1, H) of the tokens (B, 1)."""
        self.mask = torch.cat([self.mask, torch.ones_like(ids, dtype=torch.bool)], dim=1)
        return read(self.model, ids, self.mask, self.cache)

    def held(self) -> tuple[DynamicCache, Tensor]:
        """The cache, and the mask (B, tokens) of what it holds."""
        return self.cache, self.mask

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows only."""
        self.mask = self.mask[rows]
        self.cache.batch_select_indices(rows)


class RecordedPass:
    """As `PlainPass`, with tensors that never change their place or shape.

    On CUDA the pass is recorded as a graph, which each call replays: the waits between its kernels
    are gone, of which a small model's pass mostly consists. Elsewhere each call computes the pass.
    Attention goes over all the room of the cache, with what is not yet written masked out.
    """

    def __init__(self, model: PreTrainedModel, mask: Tensor, cache: DynamicCache) -> None:
        """mask: (B, P) bool of what the cache holds; its layers all `PreallocatedLayer`s"""
        rows, held = mask.shape
        layers: list[PreallocatedLayer] = cache.layers
        self.model, self.cache = model, cache
        self.ids = torch.zeros(rows, 1, dtype=torch.long, device=mask.device)
        self.mask = pad(mask, (0, layers[0].room - held))
        self.count = held  # tokens in the cache, known without a look at the device
        self.place = torch.tensor([held], device=mask.device)  # of the tokens that are read next
        for layer in layers:
            layer.fix(self.place)
        self.graph: Any = None  # mypy does not know CUDA's
        self.states = torch.empty(0)  # what the graph writes

    def __call__(self, ids: Tensor) -> Tensor:
        """Last hidden states (B, 1, H) of the tokens (B, 1); the next call overwrites them."""
        self.ids.copy_(ids)
        self.mask.index_fill_(1, self.place, True)
        if self.mask.device.type == "cuda":
            if self.graph is None:
                self._record()
            self.graph.replay()
        else:
            self.states = self._pass()
        self.place += 1
        self.count += 1
        return self.states

    def held(self) -> tuple[DynamicCache, Tensor]:
        """As of `PlainPass`."""
        return self.cache, self.mask[:, : self.count]

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows only."""
        self.ids, self.mask, self.graph = self.ids[rows], self.mask[rows], None
        self.cache.batch_select_indices(rows)

    def _pass(self) -> Tensor:
        return read(self.model, self.ids, self.mask, self.cache)

    def _record(self) -> None:
        """Record the pass. What it writes meanwhile, the replay writes again."""
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):  # libraries set themselves up in their first calls
                self._pass()
        torch.cuda.current_stream().wait_stream(aside)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.states = self._pass()
