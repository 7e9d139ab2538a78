"""What must hold before the first update of a run, checked on its first batch."""

from __future__ import annotations

import sys

import torch

from cory.agent import Agent
from cory.episode import Batch, Metrics

# float32 rounding over a few dozen tokens stays far below; bf16 has 8 bits of mantissa
TOLERANCE = {"fp32": 1e-3, "bf16": 0.1}


class FirstUpdateError(RuntimeError):
    """Sampling, scoring and training do not agree about the same tokens."""


def check_first_batch(agent: Agent, batch: Batch, metrics: Metrics) -> None:
    """Ratio 1, KL 0, and a sampler equal to the policy; else stop, or say which setting it is.

    A sampler that differs because of `algorithm.sampling` is reported and the run goes on: the
    log-probabilities that PPO uses are then not those of the distribution that was sampled from.
    """
    tolerance = TOLERANCE[agent.team.config.precision]
    index = torch.arange(min(len(batch), 16))
    rows = batch.rows(index)
    agent.model.eval()
    with torch.no_grad():
        logprobs, _ = agent.engine(rows.input_ids, rows.attention_mask, rows.response_mask)
    off_ratio = ((logprobs - rows.logprobs).exp() - 1).abs().max().item()
    off_kl = max(
        batch.kl.abs().max().item(), (batch.logprobs - batch.ref_logprobs).abs().max().item()
    )
    if not off_ratio < tolerance:
        raise FirstUpdateError(
            f"{agent.name}: before the first update the policy ratio is off 1 by {off_ratio:.2g} "
            f"(at most {tolerance}): training and roll-out passes disagree"
        )
    if not off_kl < tolerance:
        raise FirstUpdateError(
            f"{agent.name}: before the first update the KL to the reference is {off_kl:.2g} "
            f"(at most {tolerance}): policy and reference are not the same model"
        )
    gap = metrics[f"objective/sampler_gap/{agent.name}"]
    reasons = agent.config.sampling.changes_distribution()
    if not reasons:
        if abs(gap) < tolerance:
            return
        raise FirstUpdateError(
            f"{agent.name}: tokens were sampled from another distribution than the policy's "
            f"(mean log-ratio {gap:.2g}) and no sampling setting explains it"
        )
    print(
        f"note: {agent.name} samples from another distribution than the policy that PPO updates "
        f"(mean log-ratio {gap:.3f} nats per token) because of {', '.join(reasons)}",
        file=sys.stderr,
    )
