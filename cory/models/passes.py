"""The passes of sampling: one over the contexts, then one for each token; and their cache.

No context is read twice. Passes of one token are computed as they come, or recorded as CUDA graphs.
The memory of keys and values is taken once, instead of copied at every token.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from cory.functional.logprobs import padded
from cory.models.actor_critic import products
from cory.models.attention import EAGER


class Route:
    """The adapter of each row of a batch; by itself one acts on all of them, or none."""

    def __init__(self, of: Sequence[str], foreign: Tensor | None = None) -> None:
        """foreign: (rows, 1, columns) bool: which columns are other adapters' (`SharedBase`)"""
        self.of, self._all, self.foreign = of, foreign, foreign

    def __call__(self, rows: Sequence[int] | Tensor) -> None:
        """The next passes are over these rows of the batch."""
        self.foreign = None if self._all is None else self._all[rows]


class RoomyLayer(DynamicLayer):  # type: ignore[misc]  # mypy does not read the library
    """Keys and values of one layer, with room for a known number of tokens: none is copied again.

    What it returns are views of its memory: (rows, heads, tokens so far, width of a head).
    """

    def __init__(self, room: int, across: bool = False) -> None:
        """across: in bfloat16, keep the keys of a head's tokens side by side for each of its
        dimensions: a CPU then multiplies a single query with them two to four times as fast"""
        super().__init__()
        self.room, self.across = room, across
        self.memory: list[Tensor] = []  # keys and values

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append the states of new tokens; returns those of all tokens."""
        before, new = self.get_seq_length(), (key_states, value_states)
        after = before + key_states.shape[2]
        if not self.is_initialized:
            self.lazy_initialization(*new)
            self.across = self.across and key_states.dtype == torch.bfloat16
            rows, heads = key_states.shape[:2]
            self._hold(*(s.new_empty(rows, heads, self.room, s.shape[3]) for s in new))
        for memory, states in zip(self.memory, new, strict=True):
            memory[:, :, before:after] = states
        self._show(after)
        if self.across and after - before > 1:  # many queries are faster with them token by token
            return self.keys.contiguous(), self.values
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep these rows only, in this order; a row may be kept several times."""
        shown = self.get_seq_length()
        self._hold(*(memory[indices] for memory in self.memory))
        self._show(shown)

    def _hold(self, keys: Tensor, values: Tensor) -> None:
        if self.across:
            keys = keys.transpose(2, 3).contiguous().transpose(2, 3)
        self.memory = [keys, values]

    def _show(self, length: int) -> None:
        self.keys, self.values = (memory[:, :, :length] for memory in self.memory)


class FixedLayer(DynamicLayer):  # type: ignore[misc]  # as above
    """Keys and values of one layer, in memory whose place and shape never change.

    Nothing that is computed depends on a number that Python knows, so it can be recorded.
    """

    is_compileable = True  # the library is to refrain from looking at values of masks

    def __init__(self, layer: RoomyLayer, place: Tensor) -> None:
        """layer: whose memory it takes; place: (1,) int64, which the caller moves on"""
        super().__init__()
        self.place, self.is_initialized = place, True
        for memory in layer.memory:  # masked out, but 0 times what lies there must be 0
            memory[:, :, layer.get_seq_length() :] = 0
        self.keys, self.values = layer.memory

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write the states of a new token for each row at `place`; returns all of the memory."""
        self.keys.index_copy_(2, self.place, key_states)
        self.values.index_copy_(2, self.place, value_states)
        return self.keys, self.values

    def get_seq_length(self) -> Tensor:
        """Tokens written, as a tensor, as from the library's static cache."""
        return self.place[0]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Tokens that a query of `query_length` tokens is shown, and where they begin."""
        return self.keys.shape[2], 0


def cache_for(model: PreTrainedModel, room: int) -> DynamicCache:
    """An empty cache for rows of at most `room` tokens.

    It holds all of them also where a layer attends to a window of tokens: the masks of its passes
    are then those of a pass without a cache, and rows can be shared and recorded.
    """
    across = model.device.type == "cpu" and model.config._attn_implementation in EAGER
    layers = DynamicCache(config=model.config).layers
    cache = DynamicCache()
    cache.layers = [RoomyLayer(room, across) for _ in layers]
    cache.layer_class_to_replicate = None  # a layer beyond these is an error
    return cache


def prefill(
    model: PreTrainedModel,
    contexts: list[list[int]],
    cache: DynamicCache,
    pad_id: int,
    route: Route,
) -> tuple[Tensor, Tensor]:
    """Read the contexts into an empty cache; several equal ones once.

    contexts: B lists of token ids, none empty
    cache: holds B rows afterwards
    route: rows are equal where their adapter is the same, too
    returns: (B, 1, H) last hidden states of each context, mask (B, P) bool of what the cache holds
    """
    device = model.device
    rows = [*zip(route.of, map(tuple, contexts), strict=True)]
    first = {row: number for number, row in reversed([*enumerate(rows)])}
    distinct = list(dict.fromkeys(rows))
    ids, held = (t.to(device) for t in padded([row for _, row in distinct], pad_id, "left"))
    route([first[row] for row in distinct])
    states = read(model, ids, held, cache)
    if len(distinct) < len(rows):
        route(range(len(rows)))
        place = {row: place for place, row in enumerate(distinct)}
        places = torch.tensor([place[row] for row in rows], device=device)
        cache.batch_select_indices(places)
        states, held = states[places], held[places]
    return states[:, -1:], held


def read(model: PreTrainedModel, ids: Tensor, mask: Tensor, cache: DynamicCache) -> Tensor:
    """A pass over further tokens, whose keys and values are added to the cache.

    ids: (B, T)
    mask: (B, tokens in the cache + T) bool
    returns: (B, T, H) last hidden states
    """
    body: Any = model.base_model
    with products(model):
        states: Tensor = body(
            input_ids=ids,
            attention_mask=mask.long(),
            position_ids=(mask.long().cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :],
            use_cache=True,
            **{cache_argument(body.__class__): cache},
        ).last_hidden_state
    return states


@torch.no_grad()
def reads_once(
    pairs: Sequence[tuple[list[int], list[int]]], at_once: int, pad_id: int
) -> Callable[[PreTrainedModel], Tensor] | None:
    """`states_read_once` of contexts and responses, where groups of these have a context each.

    at_once: rows that there is room for: the keys are no more than they were in sampling
    """
    contexts, responses = ([*part] for part in zip(*pairs, strict=True))
    if not 2 * len(set(map(tuple, contexts))) <= len(pairs) <= at_once:
        return None
    return lambda lm: states_read_once(lm, contexts, responses, pad_id)


def states_read_once(
    model: PreTrainedModel, contexts: list[list[int]], responses: list[list[int]], pad_id: int
) -> Tensor:
    """As `response_states`, of B contexts of which several are equal; needs room for their keys.

    returns: (N, H) last hidden states before each response token, row by row
    """
    width = max(1, *map(len, responses))
    cache = cache_for(model, max(map(len, contexts)) + width)
    states, held = prefill(model, contexts, cache, pad_id, Route([""] * len(contexts)))
    ids, mask = (t.to(model.device) for t in padded([*responses, [pad_id] * width], pad_id))
    ids, mask = ids[:-1], mask[:-1]
    if width > 1:  # nothing follows the last token
        seen = torch.cat([held, mask[:, :-1]], dim=1)
        states = torch.cat([states, read(model, ids[:, :-1], seen, cache)], dim=1)
    return states[mask]


@lru_cache
def cache_argument(kind: Any) -> str:
    """What the forward pass of a model's class calls its cache; newer releases have a new word."""
    return "cache" if "cache" in signature(kind.forward).parameters else "past_key_values"


class PlainPass:
    """Reads the next token of every row, in a pass that is as long as what was read before."""

    def __init__(self, model: PreTrainedModel, mask: Tensor, cache: DynamicCache) -> None:
        """mask: (B, P) bool of what the cache holds"""
        self.model, self.mask, self.cache = model, mask, cache

    def __call__(self, ids: Tensor) -> Tensor:
        """Last hidden states (B, 1, H) of the tokens (B, 1)."""
        self.mask = torch.cat([self.mask, torch.ones_like(ids, dtype=torch.bool)], dim=1)
        return read(self.model, ids, self.mask, self.cache)

    def keep(self, rows: Tensor) -> None:
        self.mask = self.mask[rows]
        self.cache.batch_select_indices(rows)


class RecordedPass(PlainPass):
    """The same with tensors that never change their place or shape (`FixedLayer`).

    On CUDA the pass is recorded as a graph, which each call replays: the waits between its kernels
    are gone, of which a small model's pass mostly consists. Elsewhere each call computes the pass.
    Attention goes over all the room of the cache, with what is not yet written masked out.
    """

    def __init__(self, model: PreTrainedModel, mask: Tensor, cache: DynamicCache) -> None:
        """mask: (B, P) bool of what the cache holds"""
        rows, held = mask.shape
        super().__init__(model, pad(mask, (0, cache.layers[0].room - held)), cache)
        self.ids = torch.zeros(rows, 1, dtype=torch.long, device=mask.device)
        self.place = torch.tensor([held], device=mask.device)  # of the tokens that are read next
        cache.layers = [FixedLayer(layer, self.place) for layer in cache.layers]
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
            self._pass()
        self.place += 1
        return self.states

    def keep(self, rows: Tensor) -> None:
        super().keep(rows)
        self.ids, self.graph = self.ids[rows], None

    def _pass(self) -> None:
        self.states = read(self.model, self.ids, self.mask, self.cache)

    def _record(self) -> None:
        """Record the pass. What it writes meanwhile, the replay writes again."""
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(2):  # libraries set themselves up in their first calls
                self._pass()
            # What waits for the GPU cannot be recorded, and a recording that fails leaves torch's
            # random numbers unusable: an error must come before it.
            torch.cuda.set_sync_debug_mode("error")
            try:
                self._pass()
            finally:
                torch.cuda.set_sync_debug_mode("default")
        torch.cuda.current_stream().wait_stream(aside)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._pass()
