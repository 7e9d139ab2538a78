"""Checks around the first update of a run: on its first batch, and on the weights it changes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from cory import distributed
from cory.episode import Batch, Metrics
from cory.models.actor_critic import is_of_head
from cory.models.agreement import tolerance_of, typical_worst
from cory.models.policy import Policy, PPOPolicy

SUMMED_AT_ONCE = 2**22  # bytes of weights; the sum makes eight of each


class FirstUpdateError(RuntimeError):
    """Sampling, scoring and training do not agree about the same tokens."""


def check_first_batch(agent: PPOPolicy, batch: Batch, metrics: Metrics) -> None:
    """The ratio is 1, the KL 0, and the sampling distribution the policy's; else FirstUpdateError.

    A distribution that differs because of `algorithm.sampling` is reported and the run goes on: the
    log-probabilities that PPO uses are then not those of the distribution that was sampled from.
    """
    tolerance = tolerance_of(agent.bundle.config)
    rows = batch.rows(torch.arange(min(len(batch), 16)))
    agent.start_update()  # so that what is random in updates alone is seen
    with torch.no_grad():
        logprobs = agent.engine(rows.input_ids, rows.attention_mask, rows.response_mask).logprobs
    off_ratio = typical_worst((logprobs - rows.logprobs).exp() - 1, rows.response_mask, agent)
    off_kl = max(
        typical_worst(off, batch.response_mask, agent)
        for off in (batch.kl, batch.logprobs - batch.ref_logprobs)
    )
    if not agent.from_reference:
        off_kl = 0.0  # the run goes on from trained agents
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
    reasons = agent.config.sampling.changes_distribution(agent.config.policy_temperature)
    if agent.updated and agent.bundle.config.rollout_dropout:  # its first update moved nothing
        reasons.append("model.rollout_dropout=true")
    if not reasons:
        if abs(gap) < tolerance:
            return
        raise FirstUpdateError(
            f"{agent.name}: tokens were sampled from another distribution than the policy's "
            f"(mean log-ratio {gap:.2g}) and no sampling setting explains it"
        )
    distributed.note(
        f"{agent.name} samples from another distribution than the policy that PPO updates "
        f"(mean log-ratio {gap:.3f} nats per token) because of {', '.join(reasons)}"
    )


Fingerprints = dict[int, tuple[str, int]]  # parameter -> its name, and a sum over its bytes


def byte_sum(tensor: Tensor) -> int:
    """Sum over the bytes of a tensor: another number, all but surely, once a weight has moved."""
    octets = tensor.contiguous().flatten().view(torch.uint8)
    return sum(int(part.sum(dtype=torch.int64)) for part in torch.split(octets, SUMMED_AT_ONCE))


def local_fingerprints(agents: Mapping[str, Policy]) -> Fingerprints:
    """Of every weight of every agent and of the reference: the part that this process holds.

    Not of agents whose weights are not in the engine that they share: no optimiser reaches these.
    """
    prints: Fingerprints = {}
    for agent in agents.values():
        if not agent.in_engine:
            continue
        parameters = dict(agent.model.named_parameters())
        for name, part in agent.engine.own_parts().items():
            prints[id(parameters[name])] = (f"{agent.name}: {name}", byte_sum(part))
        for name, parameter in (agent.start or agent.bundle.pretrained).named_parameters():
            if id(parameter) not in prints and not parameter.is_meta:
                prints[id(parameter)] = (f"reference: {name}", byte_sum(parameter.detach()))
    return prints


@dataclass
class CheckedUpdate:
    """An update in progress, and what is known of it."""

    may_stand_still: bool = False  # every step was passed over, or all advantages are 0
    moved: bool = True  # whether weights that count have changed


@contextmanager
def checked_update(
    policy: Policy, agents: Mapping[str, Policy], head_counts: bool = False
) -> Iterator[CheckedUpdate]:
    """Around a policy's first update: it changes the policy's own weights and no others.

    Else FirstUpdateError: runs with adapters that were loaded frozen, or with an optimiser over
    another agent's weights, look healthy otherwise. An update that may stand still and did is not
    the policy's first one: the next is checked.

    head_counts: the head is what is learnt, so that it may move alone
    """
    update, before = CheckedUpdate(), local_fingerprints(agents)
    yield update
    after = local_fingerprints(agents)
    trainable = policy.engine.trainable
    own = {id(weight) for name, weight in trainable.items() if not is_of_head(name)}
    heads = {id(weight) for weight in trainable.values()} - own
    moved = {key for key in after if after[key][1] != before[key][1]}
    foreign = sorted(after[key][0] for key in moved - own - heads)
    if foreign:
        raise FirstUpdateError(f"{policy.name}: its first update also changed {foreign[0]}")
    update.moved = distributed.any_of(bool(moved & (own | heads if head_counts else own)))
    if not update.moved and not update.may_stand_still:
        raise FirstUpdateError(f"{policy.name}: its first update changed none of its weights")
