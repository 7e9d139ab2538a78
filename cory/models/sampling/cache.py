"""A cache of keys and values whose memory is taken once, instead of copied at every token."""

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from cory.models.attention import EAGER


class PreallocatedLayer(DynamicLayer):  # type: ignore[misc]  # mypy does not read the library
    """Keys and values of one layer, with room for a known number of tokens.

    What it returns are views of its memory: (rows, heads, tokens so far, width of a head).
    """

    def __init__(self, room: int, across: bool = False) -> None:
        """across: in bfloat16, keep the keys of a head's tokens side by side for each of its
        dimensions: a CPU then multiplies a single query with them two to four times as fast"""
        super().__init__()
        self.room = room
        self.across = across
        self._memory: list[Tensor] = []  # keys and values
        self._place: Tensor | None = None  # where the next token is written, once that is fixed

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append the states of new tokens; returns those of all tokens."""
        new = (key_states, value_states)
        if self._place is not None:
            for memory, states in zip(self._memory, new, strict=True):
                memory.index_copy_(2, self._place, states)
            return self.keys, self.values
        before = super().get_seq_length()
        if not self.is_initialized:
            self.lazy_initialization(*new)
            self.across = self.across and key_states.dtype == torch.bfloat16
            self._memory = [
                torch.empty(*states.shape[:2], self.room, states.shape[3], dtype=states.dtype,
                            device=states.device)
                for states in new
            ]  # fmt: skip
            if self.across:
                self._memory[0] = laid_across(self._memory[0])
        after = before + key_states.shape[-2]
        for memory, states in zip(self._memory, new, strict=True):
            memory[:, :, before:after] = states
        self._show(after)
        if self.across and after - before > 1:  # many queries are faster with them token by token
            return self.keys.contiguous(), self.values
        return self.keys, self.values

    def fix(self, place: Tensor) -> None:
        """From now on write each token at `place`, and return all of the memory.

        Nothing that is computed then depends on a number that Python knows, so it can be recorded.

        place: (1,) int64, which the caller moves on
        """
        for memory in self._memory:  # masked out, but 0 times what lies there must be 0
            memory[:, :, self.keys.shape[2] :] = 0
        self._place = place
        self._show(self.room)

    def get_seq_length(self) -> int | Tensor:
        """Tokens written; a tensor where the place is fixed, as from the library's static cache."""
        return super().get_seq_length() if self._place is None else self._place[0]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Tokens that a query of `query_length` tokens is shown, and where they begin."""
        return super().get_mask_sizes(query_length) if self._place is None else (self.room, 0)

    def spread(self, places: Tensor) -> None:
        """From the only row make several, whose tokens are those at the row's `places`.

        places: (rows, tokens) int64
        """
        memory = []
        for states in self._memory:
            rows = states.new_empty(len(places), *states.shape[1:])
            rows[:, :, : places.shape[1]] = states[0][:, places].transpose(0, 1)
            memory.append(rows)
        self._memory = memory
        if self.across:
            self._memory[0] = laid_across(self._memory[0])
        self._show(places.shape[1])

    @property
    def is_compileable(self) -> bool:
        """Whether the library is to refrain from looking at values of masks."""
        return self._place is not None

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep these rows only, in this order; a row may be kept several times."""
        shown = self.keys.shape[2]
        self._memory = [memory[indices] for memory in self._memory]
        if self.across:
            self._memory[0] = laid_across(self._memory[0])
        self._show(shown)

    def _show(self, length: int) -> None:
        self.keys, self.values = (memory[:, :, :length] for memory in self._memory)


def laid_across(keys: Tensor) -> Tensor:
    """The same (rows, heads, room, width), of which the tokens lie side by side in memory."""
    return keys.transpose(2, 3).contiguous().transpose(2, 3)


def cache_for(model: PreTrainedModel, room: int) -> DynamicCache:
    """An empty cache for rows of at most `room` tokens.

    It holds all of them also where a layer attends to a window of tokens: the masks of its passes
    are then those of a pass without a cache, and rows can be shared and recorded.
    """
    across = model.device.type == "cpu" and model.config._attn_implementation in EAGER
    layers = DynamicCache(config=model.config).layers
    cache = DynamicCache()
    cache.layers = [PreallocatedLayer(room, across) for _ in layers]
    cache.layer_class_to_replicate = None  # a layer beyond these is an error
    return cache
