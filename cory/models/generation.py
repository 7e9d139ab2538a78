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
    DynamicCache,
    PreTrainedModel,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from cory.config import SamplingConfig
from cory.functional.masking import pad_left


@dataclass(frozen=True)
class Response:
    """One sampled response."""

    ids: list[int]  # ends with EOS when the model stopped by itself
    sampler_logprobs: list[float]  # log-probability under the distribution that was sampled from


def draw_uniforms(rows: int, limit: int, stream: torch.Generator) -> Tensor:
    """(rows, limit) float64 in [0, 1), row after row: several calls draw what one would."""
    return torch.rand(rows, limit, dtype=torch.float64, generator=stream)


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
) -> list[Response]:
    """Sample at most `limit` tokens after each context; greedy when `sampling` is None.

    contexts: B lists of token ids, none empty
    uniforms: (B, limit) float64 in [0, 1), one per token; None when greedy
    stops: tokens that end a response
    """
    device = model.device
    ids, mask = (t.to(device) for t in pad_left(contexts, pad_id))
    seen = torch.zeros(len(contexts), model.config.vocab_size, dtype=torch.bool, device=device)
    for i, row in enumerate(contexts):
        seen[i, row] = True
    alive = torch.ones(len(contexts), dtype=torch.bool, device=device)
    cache = DynamicCache(config=model.config)
    lengths = torch.zeros(len(contexts), dtype=torch.long, device=device)
    step_ids, tokens, logprobs = ids, [], []
    for t in range(limit):
        positions = (mask.long().cumsum(-1) - 1).clamp(min=0)[:, -step_ids.shape[1] :]
        logits = (
            model(
                input_ids=step_ids,
                attention_mask=mask.long(),
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
            .logits[:, -1]
            .float()
        )
        if sampling is None:
            token, logprob = logits.argmax(-1), torch.zeros(len(contexts), device=device)
        else:
            assert uniforms is not None
            logp = warp(logits, seen, sampling).log_softmax(-1)
            token = inverse_cdf(logp, uniforms[:, t].to(device))
            logprob = logp.gather(1, token[:, None]).squeeze(1)
        token = torch.where(alive, token, pad_id)
        lengths += alive
        tokens.append(token)
        logprobs.append(logprob)
        seen.scatter_(1, token[:, None], True)
        for stop in stops:
            alive = alive & (token != stop)
        if not alive.any():
            break
        step_ids = token[:, None]
        mask = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
    all_ids, all_logprobs = torch.stack(tokens, 1).tolist(), torch.stack(logprobs, 1).tolist()
    return [
        Response(row[:n], logp[:n])
        for row, logp, n in zip(all_ids, all_logprobs, lengths.tolist(), strict=True)
    ]


def warp(logits: Tensor, seen: Tensor, sampling: SamplingConfig) -> Tensor:
    """Logits of the distribution that is sampled from; the policy's own when all settings are off.

    logits: (B, V)
    seen: (B, V) bool, True for tokens of the context and the response so far
    """
    if sampling.repetition_penalty != 1.0:
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
    cumulative = logp.double().exp().cumsum(-1)
    place = uniform * cumulative[:, -1]
    token = torch.searchsorted(cumulative, place[:, None], right=True).squeeze(1)
    return token.clamp(max=logp.shape[1] - 1)
