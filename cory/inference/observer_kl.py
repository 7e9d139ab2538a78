"""How far CORY's agents are from the reference, with and without the answers that they read.

An observer's KL penalty is measured against a reference that reads the same prompt, the pioneer's
answer included. What a reference expects after an answer that repeats itself is repetition, so an
observer may be near it and far from what the model would say to the bare query.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from cory.config import CoryConfig, require
from cory.episode import Prompt, Turn
from cory.inference.agents import Agents
from cory.models.policy import Policy, TokenRow
from cory.rollout.interactions import Roles, pioneer_observer


@dataclass(frozen=True)
class Distances:
    """An agent in one role: mean log-ratios of its responses, in nats per response."""

    agent: str
    role: str
    read: float  # to the reference that reads what the agent has read: the KL, by k1
    bare: float  # to the reference that reads the query alone


def distances(agents: Agents, prompts: Sequence[Prompt], seed: int) -> list[Distances]:
    """Of every agent in every role; ConfigError where the run is not CORY's with transfer.

    Each agent begins a chain once, and all sample as in the run.
    """
    algorithm = agents.config.algorithm
    require(
        isinstance(algorithm, CoryConfig) and algorithm.knowledge_transfer,
        f"{agents.run_dir} is a run of algorithm={algorithm.name} in which nobody reads another's "
        f"answer",
    )
    roles, found = Roles(list(agents)), []
    for _ in agents:
        interact = partial(
            pioneer_observer, roles=roles, observer_context=agents.form.observer_context
        )
        episodes = agents.episodes(prompts, interact, seed=seed)
        bare = [episode.turns[0].context_ids for episode in episodes]
        for place, (name, role) in enumerate(roles.speakers()):
            turns = [episode.turns[place] for episode in episodes]
            asked = [replace(t, context_ids=ids) for t, ids in zip(turns, bare, strict=True)]
            policy = agents.policies[name]
            own, reference = log_probabilities(policy, turns)
            found.append(
                Distances(
                    name,
                    role,
                    float((own - reference).mean()),
                    float((own - log_probabilities(policy, asked)[1]).mean()),
                )
            )
        roles.exchange()
    return found


def log_probabilities(policy: Policy, turns: Sequence[Turn]) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each response (B,), under the policy and under its frozen reference."""
    size, parts = policy.hardware.rollout_batch_size, []
    for start in range(0, len(turns), size):
        rows: list[TokenRow | None] = [*turns[start : start + size]]
        statistics, _ = policy.team.statistics(policy.model, *policy.tensors(rows))
        parts.append(torch.stack([statistics.logprobs.sum(1), statistics.ref_logprobs.sum(1)]))
    own, reference = torch.cat(parts, dim=1)
    return own, reference
