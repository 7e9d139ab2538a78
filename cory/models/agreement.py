"""Whether two passes over the same tokens agree; and whether a server agrees with the trainer."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cory.config import ModelConfig, SamplingConfig
from cory.episode import Turn
from cory.functional.logprobs import tail_of
from cory.models.actor_critic import output_head, response_states
from cory.models.generation import warp

if TYPE_CHECKING:
    from cory.models.policy import Policy

# float32 rounding over a few dozen tokens stays far below; bf16 has 8 bits of mantissa, fp16 and
# TF32 have 11
TOLERANCE = {"fp32": 1e-3, "tf32": 0.02, "bf16": 0.1, "fp16": 0.02}
CUT_APART = 0.05  # share of a server's tokens that the trainer's top_k or top_p may leave out
CHECKED, TOKENS = 8, 64  # responses of each set of weights that are compared; tokens of each


def tolerance_of(model: ModelConfig) -> float:
    """How far numbers may be off that are equal but for rounding."""
    return max(TOLERANCE[model.precision], TOLERANCE[model.compute_precision])


def typical_worst(off: Tensor, mask: Tensor, policy: "Policy") -> float:
    """The largest deviation; unless all is in float32, the 99 % quantile.

    In other precisions a few of many tokens are far off: passes of another shape round differently.

    off, mask: of one shape; the deviations, and which of them count
    """
    found = off.abs()[mask]
    if len(found) == 0:
        return 0.0
    model = policy.bundle.config
    if model.precision == model.compute_precision == "fp32":
        return float(found.max())
    return tail_of(found.float())


@torch.no_grad()
def server_gap(policy: "Policy", turns: Sequence[Turn], sampling: SamplingConfig | None) -> float:
    """How far log-probabilities of turns, as the server said them, are off those computed here.

    The typical worst of the first tokens; every process calls it.

    sampling: as the turns were sampled; None: greedily, or as if
    """
    rows = [replace(turn, response_ids=turn.response_ids[:TOKENS]) for turn in turns]
    ids, attention_mask, mask = policy.tensors(rows)
    with policy.acting() as lm:
        logits = output_head(lm)(response_states(lm, ids, attention_mask, mask)).float()
    if sampling is not None:
        seen = None
        if sampling.repetition_penalty != 1.0:
            seen = torch.zeros_like(logits, dtype=torch.bool)
            places = [(row, n) for row in rows for n in range(len(row.response_ids))]
            for had, (row, n) in zip(seen, places, strict=True):
                had[[*row.context_ids, *row.response_ids[:n]]] = True
        logits = warp(logits, seen, sampling)
    tokens = ids[:, -mask.shape[1] :][mask]
    own = logits.log_softmax(-1).gather(1, tokens[:, None]).squeeze(1).cpu()
    told = torch.tensor([logp for turn in turns for logp in turn.sampler_logprobs[:TOKENS]])
    inside = own.isfinite()  # others are where top_k or top_p cut at another token, by rounding
    if (~inside).float().mean() > CUT_APART:
        return math.inf
    return typical_worst(own - told, inside, policy)
