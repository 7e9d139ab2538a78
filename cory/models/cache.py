"""A cache of keys and values whose memory is taken once, instead of copied at every token."""

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer


class PreallocatedLayer(DynamicLayer):  # type: ignore[misc]  # mypy does not read the library
    """Keys and values of one layer, with room for a known number of tokens.

    What it returns are views of its memory: (rows, heads, tokens so far, width of a head).
    """

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room
        self._memory: list[Tensor] = []  # keys and values

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append the states of new tokens; returns those of all tokens."""
        new = (key_states, value_states)
        before = self.get_seq_length()
        if not self.is_initialized:
            self.lazy_initialization(*new)
            self._memory = [
                torch.empty(*states.shape[:2], self.room, states.shape[3], dtype=states.dtype,
                            device=states.device)
                for states in new
            ]  # fmt: skip
        after = before + key_states.shape[-2]
        for memory, states in zip(self._memory, new, strict=True):
            memory[:, :, before:after] = states
        self._show(after)
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep these rows only."""
        length = self.get_seq_length()
        self._memory = [memory[indices] for memory in self._memory]
        self._show(length)

    def _show(self, length: int) -> None:
        self.keys, self.values = (memory[:, :, :length] for memory in self._memory)


def cache_for(model: PreTrainedModel, room: int) -> DynamicCache:
    """An empty cache for rows of at most `room` tokens.

    Layers with a sliding window keep the library's own cache, which holds the window alone.
    """
    cache = DynamicCache(config=model.config)
    cache.layers = [
        PreallocatedLayer(room) if type(layer) is DynamicLayer else layer for layer in cache.layers
    ]
    return cache
