"""Batched sampling of responses.

Each token takes one uniform number that was drawn beforehand for its row and place, so a
response does not depend on which other prompts shared its batch.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import (
    PreTrainedModel,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from cory.config import SamplingConfig
from cory.models.actor_critic import output_head
from cory.models.passes import PlainPass, RecordedPass, Route, cache_for, prefill

# Rows that have ended are dropped once no more than this share is left: dropping copies the cache.
# GRPO's iteration on sums with 64 tokens at most took 0.90 of its time (0.62 to 1.07).
COMPACT_BELOW = 0.5
LOOK_EVERY = 8  # tokens between two looks whether rows have ended, for which a GPU must be waited


@dataclass(frozen=True)
class Response:
    ids: list[int]  # ends with EOS when the model stopped by itself
    sampler_logprobs: list[float]  # log-probability under the distribution that was sampled from


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
    route: Route | None = None,
) -> list[Response]:
    """Sample at most `limit` tokens after each context; greedy when `sampling` is None.

    contexts: B lists of token ids, none empty
    uniforms: (B, limit) float64 in [0, 1), one per token; None when greedy
    stops: tokens that end a response
    graphs: passes of one token are recorded as CUDA graphs; see `RecordedPass`
    route: which adapter acts on each row; None: one does on all, or none
    """
    route = route or Route([""] * len(contexts))
    device, count = model.device, len(contexts)
    head = output_head(model)
    numbers = None if uniforms is None else uniforms.to(device)
    stop_ids = torch.tensor(sorted(stops), dtype=torch.long, device=device)
    tokens = torch.full((count, limit), pad_id, device=device)
    logprobs = torch.zeros(count, limit, device=device)
    lengths = torch.zeros(count, dtype=torch.long, device=device)
    # of the rows in a pass: their numbers, which have not ended, and what they have said or read
    rows = torch.arange(count, device=device)
    alive = torch.ones(count, dtype=torch.bool, device=device)
    seen = None  # (rows, V) bool
    if sampling is not None and sampling.repetition_penalty != 1.0:
        seen = torch.zeros(count, model.config.vocab_size, dtype=torch.bool, device=device)
        for row, context in zip(seen, contexts, strict=True):
            row[context] = True
    cache = cache_for(model, max(map(len, contexts)) + limit)
    states, mask = prefill(model, contexts, cache, pad_id, route)
    following = (RecordedPass if graphs else PlainPass)(model, mask, cache)
    for place in range(limit):
        uniform = None if numbers is None else numbers[rows, place]
        token, logprob = pick(head(states[:, 0]).float(), seen, sampling, uniform)
        token = torch.where(alive, token, pad_id)
        tokens[rows, place], logprobs[rows, place] = token, logprob
        lengths[rows] += alive
        alive = alive & ~torch.isin(token, stop_ids)
        if seen is not None:
            seen.scatter_(1, token[:, None], True)
        left = int(alive.sum()) if may_look(place + 1, device) else len(rows)
        if left == 0 or place + 1 == limit:
            break
        if left <= len(rows) * COMPACT_BELOW:
            kept = alive.nonzero().squeeze(1)
            rows, alive, token = rows[kept], alive[kept], token[kept]
            seen = None if seen is None else seen[kept]
            following.keep(kept)
            route(rows)
        states = following(token[:, None])
    return [
        Response(row[:n], logp[:n])
        for row, logp, n in zip(tokens.tolist(), logprobs.tolist(), lengths.tolist(), strict=True)
    ]


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
        penalty = sampling.repetition_penalty
        logits = torch.where(seen, logits * torch.where(logits < 0, penalty, 1 / penalty), logits)
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
