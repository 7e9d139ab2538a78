"""Metrics of a roll-out. docs/metrics.md defines each of them."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import torch
from torch import Tensor

from cory.episode import Batch, Episode, Metrics, Turn, score_of
from cory.functional.logprobs import copied_share, distinct_share, masked_mean, sampled_kl
from cory.models.policy import Policy, PPOPolicy

COPIED = 4  # tokens in a row that count as repeated
QUANTILE = 0.99  # where not all is in float32 a few tokens are far off, and most not at all


def agent_metrics(agent: PPOPolicy, turns: list[Turn], batch: Batch) -> Metrics:
    """Scores, KL, entropy and lengths of one agent's turns."""
    turns = [turn for turn in turns if not turn.absent]  # their rows in the batch are empty
    mask, count = batch.response_mask, len(turns)
    scores = [score_of(turn) for turn in turns]
    score = sum(scores) / count
    kl = batch.kl.sum().item() / count
    stops = agent.bundle.stops
    sampled = [logprob for turn in turns for logprob in turn.sampler_logprobs]
    gap = torch.tensor(sampled, device=batch.logprobs.device) - batch.logprobs[mask]
    values = {
        "objective/score": score,
        "objective/score_std": torch.tensor(scores, dtype=torch.float32).std(correction=0).item(),
        "objective/credit": sum(turn.credit or 0.0 for turn in turns) / count,
        "objective/kl": kl,
        "objective/combined": score - agent.kl_coef * kl,
        "objective/kl_coef": agent.kl_coef,
        "objective/entropy": masked_mean(batch.entropy, mask).item(),
        "objective/sampler_gap": gap.mean().item(),
        "objective/sampler_gap_p99": tail_of(gap.abs()),
        "objective/sampler_gap_max": gap.abs().max().item(),
        "rollout/response_tokens": mask.sum().item() / count,
        "rollout/context_tokens": sum(len(turn.context_ids) for turn in turns) / count,
        "rollout/eos_share": sum(turn.response_ids[-1] in stops for turn in turns) / count,
        "rollout/truncated_share": sum(turn.response_ids[-1] not in stops for turn in turns)
        / count,
    }
    if agent.texts.private:
        values["rollout/thinking_tokens"] = sum(turn.thinking_tokens for turn in turns) / count
    for part in turns[0].parts:
        found = [turn.parts[part] for turn in turns]
        applying = [one for one in found if one is not None]
        if applying:
            values[f"reward/{part}"] = sum(applying) / len(applying)
    for n in (1, 2):
        responses = (without_stop(turn, stops) for turn in turns)
        values[f"rollout/distinct_{n}"] = distinct_share(responses, n)
    for estimator in ("k1", "k3"):
        estimate = sampled_kl(batch.logprobs, batch.ref_logprobs, estimator)
        values[f"objective/kl_{estimator}"] = estimate.sum().item() / count
    return {f"{key}/{agent.name}": value for key, value in values.items()}


def value_metrics(agent: str, batch: Batch, returns: Tensor | None) -> Metrics:
    """How well the value head predicted the returns of a roll-out; nothing where there is none."""
    if returns is None or batch.values is None:
        return {}
    mask = batch.response_mask
    spread = returns[mask].var(correction=0)
    error = (returns - batch.values)[mask].var(correction=0)
    explained = 1 - error / spread if spread > 0 else torch.zeros(())
    return {
        f"ppo/value/explained_variance/{agent}": float(explained),
        f"ppo/value/mean/{agent}": masked_mean(batch.values, mask).item(),
        f"ppo/returns/mean/{agent}": masked_mean(returns, mask).item(),
    }


def without_stop(turn: Turn, stops: AbstractSet[int]) -> list[int]:
    """The tokens of a response without its stop token."""
    ids = turn.response_ids
    return ids[:-1] if ids[-1] in stops else ids


BY_ROLE = (
    "objective/score",
    "objective/kl",
    "objective/combined",
    "objective/entropy",
    "rollout/truncated_share",
    "rollout/thinking_tokens",
    "rollout/distinct_1",
    "rollout/distinct_2",
)


def role_metrics(episodes: list[Episode], metrics: Metrics) -> Metrics:
    """The agents' metrics under the role each played, and each agent's place in the order."""
    by_role: Metrics = {}
    for place, turn in enumerate(episodes[0].turns):
        by_role[f"role/{turn.agent}"] = float(place)
        for key in BY_ROLE:
            if f"{key}/{turn.agent}" in metrics:  # not every model thinks in private
                by_role[f"{key}/{turn.role}"] = metrics[f"{key}/{turn.agent}"]
    return by_role


def transfer_metrics(episodes: list[Episode], agents: Mapping[str, Policy]) -> Metrics:
    """Gain over the pioneer's score, and share of its response copied, of each observer."""
    metrics: Metrics = {}
    for place, turn in list(enumerate(episodes[0].turns))[1:]:
        pairs = [(episode.turns[0], episode.turns[place]) for episode in episodes]
        gains = [score_of(later) - score_of(first) for first, later in pairs]
        copied = []
        for first, later in pairs:
            author, reader = agents[first.agent], agents[later.agent]
            said = without_stop(later, reader.bundle.stops)
            copied.append(copied_share(said, read_by(reader, author, first), COPIED))
        metrics[f"transfer/gain/{turn.role}"] = sum(gains) / len(gains)
        metrics[f"transfer/copy_rate/{turn.role}"] = sum(copied) / len(copied)
    return metrics


def read_by(reader: Policy, author: Policy, turn: Turn) -> list[int]:
    """The tokens of a response without its stop token; of another model's, those of its text."""
    if reader.bundle is author.bundle:
        return without_stop(turn, author.bundle.stops)
    ids: list[int] = reader.bundle.tokenizer(turn.response, add_special_tokens=False)["input_ids"]
    return ids


def tail_of(values: Tensor) -> float:
    """The 99 % quantile of at least one number.

    values: (N,) float; torch takes 2^24, of more every second one
    """
    return float(values[:: 1 + len(values) // 2**24].quantile(QUANTILE))
