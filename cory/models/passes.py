"""The passes of sampling: one over the contexts, then one for each token; and their cache.

Then those of scoring: under the policy, and under its frozen reference.

No context is read twice. Passes of one token are computed as they come, or recorded as CUDA graphs.
The memory of keys and values is taken once, instead of copied at every token.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from inspect import signature
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from cory.functional.logprobs import TokenStatistics, padded, token_statistics
from cory.models.actor_critic import (
    EAGER,
    ActorCriticModel,
    products,
    response_states,
    spread,
)

# A beginning that all contexts share has a pass of its own, which shorter ones are not worth.
SHARED_AT_LEAST = 16


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
            self._lay_across()
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
        self._lay_across()
        self._show(places.shape[1])

    @property
    def is_compileable(self) -> bool:
        """Whether the library is to refrain from looking at values of masks."""
        return self._place is not None

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep these rows only, in this order; a row may be kept several times."""
        shown = self.keys.shape[2]
        self._memory = [memory[indices] for memory in self._memory]
        self._lay_across()
        self._show(shown)

    def _show(self, length: int) -> None:
        self.keys, self.values = (memory[:, :, :length] for memory in self._memory)

    def _lay_across(self) -> None:
        """Let the tokens of the keys' memory lie side by side, where they are to."""
        if self.across:
            self._memory[0] = self._memory[0].transpose(2, 3).contiguous().transpose(2, 3)


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


def prefill(
    model: PreTrainedModel, contexts: list[list[int]], cache: DynamicCache, pad_id: int
) -> tuple[Tensor, Tensor]:
    """Read the contexts into an empty cache; several equal ones, and what all begin with, once.

    All padding lies before a row's first token, as in a pass over the rows alone: windows of
    attention, and biases of distance, count the places between two tokens.

    contexts: B lists of token ids, none empty
    cache: has room for the longest; holds B rows afterwards
    returns: (B, 1, H) last hidden states of each context, mask (B, P) bool of what the cache holds
    """
    device = model.device
    distinct = list(dict.fromkeys(map(tuple, contexts)))
    # of each, at least one token is left, from whose state the first token is sampled
    shared = min(common_beginning(distinct), min(map(len, distinct)) - 1)
    if len(distinct) == 1 or shared < SHARED_AT_LEAST:
        shared = 0
    # of each row, as many as the longest has behind the beginning are read in a pass of their own
    last = max(map(len, distinct)) - shared
    begun = torch.tensor([[max(0, len(row) - last)] for row in distinct], device=device)
    columns = torch.arange(shared, device=device) - (shared - begun)  # (rows, shared)
    held = columns >= 0
    if shared:
        beginning = torch.tensor([distinct[0][:shared]], device=device)
        read(model, beginning, torch.ones_like(beginning, dtype=torch.bool), cache)
        for layer in cache.layers:
            layer.spread(columns.clamp(min=0))
    ids, mask = (t.to(device) for t in padded([row[-last:] for row in distinct], pad_id, "left"))
    held = torch.cat([held, mask], dim=1)
    states = read(model, ids, held, cache)
    if len(distinct) < len(contexts):
        number = {row: place for place, row in enumerate(distinct)}
        places = torch.tensor([number[tuple(row)] for row in contexts], device=device)
        cache.batch_select_indices(places)
        states, held = states[places], held[places]
    return states[:, -1:], held


def common_beginning(rows: Sequence[tuple[int, ...]]) -> int:
    """The number of tokens with which all rows begin alike."""
    # what the first and the last in sorted order share, those between them share, too
    pairs = zip(min(rows), max(rows), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


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


@lru_cache
def cache_argument(kind: Any) -> str:
    """What a model's forward pass calls its cache; newer releases of the library have a new word.

    kind: the model's class
    """
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
            self._pass()
        self.place += 1
        return self.states

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows only."""
        self.ids, self.mask, self.graph = self.ids[rows], self.mask[rows], None
        self.cache.batch_select_indices(rows)

    def _pass(self) -> None:
        self.states = read(self.model, self.ids, self.mask, self.cache)

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
            self._pass()


@torch.no_grad()
def statistics_of(
    model: ActorCriticModel,
    reference: PreTrainedModel,
    input_ids: Tensor,
    attention_mask: Tensor,
    response_mask: Tensor,
) -> tuple[TokenStatistics, Tensor | None]:
    """Statistics of response tokens under policy and reference, and their values.

    reference: as in `reference_of`
    input_ids, attention_mask: (B, L)
    response_mask: (B, R) bool
    returns: statistics, each (B, R); values (B, R), None where the model has no value head;
        float32, 0 where the mask is False
    """
    inputs = input_ids, attention_mask, response_mask
    model.activate()
    hidden = response_states(model.lm, *inputs)
    statistics = token_statistics(
        hidden,
        model.lm.get_output_embeddings(),
        *reference_states(model, reference, *inputs),
        input_ids[:, -response_mask.shape[1] :][response_mask],
        model.vocabulary,
        model.temperature,
    )
    return (
        TokenStatistics(*(spread(column, response_mask) for column in statistics)),
        model.spread_values(hidden, response_mask),
    )


@torch.no_grad()
def reference_states(
    model: ActorCriticModel,
    reference: PreTrainedModel,
    input_ids: Tensor,
    attention_mask: Tensor,
    response_mask: Tensor,
) -> tuple[Tensor, nn.Module]:
    """Hidden states of the reference before the response tokens (N, H), and its output head.

    An adapter never lies on the output head: with adapters it is the policy's own.

    reference: as in `reference_of`
    input_ids, attention_mask: (B, L)
    response_mask: (B, R) bool, True on N tokens
    """
    model.activate()
    with reference_of(model, reference) as lm:
        hidden = response_states(lm, input_ids, attention_mask, response_mask)
        head: nn.Module = lm.get_output_embeddings()
    return hidden, head


@contextmanager
def reference_of(model: ActorCriticModel, reference: PreTrainedModel) -> Iterator[PreTrainedModel]:
    """The frozen reference of a model: of an adapter the base without any.

    reference: of full copies, `bundle.pretrained`
    """
    if model.base is None:
        if reference.device.type == "meta":
            raise ValueError("the frozen reference was not kept")
        yield reference
        return
    layers = model.base.peft.base_model
    layers.disable_adapter_layers()
    try:
        yield model.lm
    finally:
        layers.enable_adapter_layers()
