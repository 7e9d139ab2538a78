"""Batched sampling of responses.

Each token takes one uniform number that was drawn beforehand for its row and place, so a
response does not depend on which other prompts shared its batch.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import (
    PreTrainedModel,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from cory.config import SamplingConfig
from cory.models.sampling.working_rows import WorkingRows

# Rows that have ended are dropped once no more than this share is left: dropping copies the cache.
COMPACT_BELOW = 0.5
REFILL_FROM = 0.25  # waiting ones come once there is room for this share of a pass
LOOK_EVERY = 8  # tokens between two looks whether rows have ended, for which a GPU must be waited


@dataclass(frozen=True)
class Response:
    """One sampled response."""

    ids: list[int]  # ends with EOS when the model stopped by itself
    sampler_logprobs: list[float]  # log-probability under the distribution that was sampled from


def draw_limit(sampling: SamplingConfig, stream: np.random.Generator) -> int:
    """The most tokens of a roll-out's responses, uniformly from the settings' range."""
    return int(stream.integers(sampling.min_response_tokens, sampling.max_response_tokens + 1))


@torch.no_grad()
def generate(
    model: PreTrainedModel,
    contexts: list[list[int]],
    limit: int,
    sampling: SamplingConfig | None,
    uniforms: Tensor | None,
    pad_id: int,
    stops: AbstractSet[int],
    graphs: bool = False,
    at_once: int | None = None,
) -> list[Response]:
    """Sample at most `limit` tokens after each context; greedy when `sampling` is None.

    contexts: B lists of token ids, none empty
    uniforms: (B, limit) float64 in [0, 1), one per token; None when greedy
    stops: tokens that end a response
    graphs: passes of one token are recorded as CUDA graphs; see `RecordedPass`
    at_once: at most this many rows of a pass, in the memory that the longest contexts need; where
        some (on a CPU: all) have ended, waiting ones come, from the last context on. None: all
    """
    device, count = model.device, len(contexts)
    most = min(at_once or count, count)
    head = model.get_output_embeddings()
    penalised = sampling is not None and sampling.repetition_penalty != 1.0
    work = WorkingRows(model, contexts, limit, pad_id, graphs, penalised)
    places = Places(most, most * (max(map(len, contexts)) + limit), refills(device))
    numbers = None if uniforms is None else uniforms.to(device)
    # a column more than there are tokens, for what is drawn where a row has ended
    tokens = torch.full((count, limit + 1), pad_id, device=device)
    logprobs = torch.zeros(count, limit + 1, device=device)
    lengths = torch.zeros(count, dtype=torch.long, device=device)
    stop_ids = torch.tensor(sorted(stops), dtype=torch.long, device=device)
    waiting = list(range(count))
    left, passes, coming = 0, 0, most
    while left or waiting:
        if coming:
            work.add([waiting.pop() for _ in range(min(coming, len(waiting)))])
        rows, place = work.rows, lengths[work.rows]
        uniform = None if numbers is None else numbers[rows, place.clamp(max=limit - 1)]
        token, logprob = pick(head(work.states)[:, 0].float(), work.seen, sampling, uniform)
        token = torch.where(work.alive, token, pad_id)
        tokens[rows, place], logprobs[rows, place] = token, logprob
        lengths[rows] += work.alive
        work.take(token, torch.isin(token, stop_ids) | (lengths[rows] == limit))
        passes += 1
        looks = may_look(passes, device) or work.passes_left == 0
        left = int(work.alive.sum()) if looks else len(rows)
        if left == 0:
            work.clear()
            coming = most
            continue
        coming = places.free(work, left, contexts[waiting[-1]]) if waiting and looks else 0
        if coming or left <= len(rows) * COMPACT_BELOW:
            token = work.keep_alive(token)
        work.read(token)
    return [
        Response(row[:n], logp[:n])
        for row, logp, n in zip(tokens.tolist(), logprobs.tolist(), lengths.tolist(), strict=True)
    ]


def refills(device: torch.device) -> bool:
    """Whether waiting rows come before all others have ended.

    On a GPU, where a pass of few rows takes about as long as one of many. On a CPU it gained
    nothing.
    """
    return device.type != "cpu"


@dataclass(frozen=True)
class Places:
    """How many rows a pass may have."""

    most: int
    cells: int  # tokens that the cache may have room for, of all rows together
    joins: bool  # whether others may come before all have ended

    def free(self, work: WorkingRows, left: int, context: list[int]) -> int:
        """How many rows may come beside `left` others, with contexts as long as this one.

        0 where few may: each time the cache is copied.
        """
        least = self.most * REFILL_FROM
        if not self.joins or self.most - left < least:
            return 0
        free = min(self.most, self.cells // work.room(len(context))) - left
        return free if free >= least else 0


def pick(
    logits: Tensor, seen: Tensor | None, sampling: SamplingConfig | None, uniform: Tensor | None
) -> tuple[Tensor, Tensor]:
    """A token for each row, and its log-probability under the distribution that is sampled from.

    logits: (B, V) float32
    seen: see `warp`
    sampling: None takes the most probable token, whose log-probability is given as 0
    uniform: (B,) float64 in [0, 1); None when greedy
    """
    if sampling is None:
        return logits.argmax(-1), torch.zeros(len(logits), device=logits.device)
    assert uniform is not None
    logp = warp(logits, seen, sampling).log_softmax(-1)
    token = inverse_cdf(logp, uniform)
    return token, logp.gather(1, token[:, None]).squeeze(1)


def may_look(passes: int, device: torch.device) -> bool:
    """Whether it is time, after so many passes, to see which rows have ended."""
    return device.type == "cpu" or passes % LOOK_EVERY == 0


def warp(logits: Tensor, seen: Tensor | None, sampling: SamplingConfig) -> Tensor:
    """Logits of the distribution that is sampled from; the policy's own when all settings are off.

    logits: (B, V)
    seen: (B, V) bool, True for tokens of the context and the response so far; None: none count
    """
    if seen is not None:
        penalty = torch.where(
            logits < 0, sampling.repetition_penalty, 1 / sampling.repetition_penalty
        )
        logits = torch.where(seen, logits * penalty, logits)
    unused = torch.empty(0)  # the library's warpers ask for input ids and do not read them
    if sampling.temperature != 1.0:
        logits = TemperatureLogitsWarper(sampling.temperature)(unused, logits)
    if sampling.top_k > 0:
        logits = TopKLogitsWarper(sampling.top_k)(unused, logits)
    if sampling.top_p < 1.0:
        logits = TopPLogitsWarper(sampling.top_p)(unused, logits)
    return logits


def inverse_cdf(logp: Tensor, uniform: Tensor) -> Tensor:
    """The token at which the cumulative probability passes `uniform`.

    logp: (B, V)
    uniform: (B,) float64 in [0, 1)
    returns: (B,) int64
    """
    cumulative = logp.exp().cumsum(-1, dtype=torch.float64)
    place = uniform * cumulative[:, -1]
    token = torch.searchsorted(cumulative, place[:, None], right=True).squeeze(1)
    return token.clamp(max=logp.shape[1] - 1)
