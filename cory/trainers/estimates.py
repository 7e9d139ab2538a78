"""From the credits of an iteration to what each update aims at: groups, advantages, returns.

And what is logged of both; docs/metrics.md defines each metric.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from cory.config import ConfigError, PPOConfig
from cory.episode import Batch, Episode, Metrics, PlainRow, Turn, score_of
from cory.functional.advantages import (
    Pool,
    batch_normalised,
    gae,
    group_relative,
    group_statistics,
    groups_of,
    kl_penalised_rewards,
    leave_one_out,
    pool_of,
)
from cory.functional.logprobs import (
    copied_share,
    distinct_share,
    masked_mean,
    sampled_kl,
    tail_of,
    whiten,
)
from cory.models.policy import PPOPolicy


class Estimate(NamedTuple):
    advantages: Tensor  # (B, R), 0 outside the mask
    returns: Tensor | None  # (B, R), what the value head learns; None where there is none


class Groups(NamedTuple):
    """What each turn of a batch is compared with."""

    own: Tensor  # (B,) int64, as of `groups_of`
    pool: Pool | None = None  # None: the agent's own turns


Estimator = Callable[[Batch, Groups, float], Estimate]  # turns, groups, kl_coef


def compared(config: PPOConfig, episodes: Sequence[Episode], agent: str, batch: Batch) -> Groups:
    """The groups of one agent's turns; absent ones at the end of the batch are of none."""
    device, samples = batch.credits.device, config.samples_per_prompt
    own = groups_of(episodes, agent, samples, config.groups)
    pool = pool_of(episodes, samples, config.groups)
    return Groups(
        pad(own, (0, len(batch) - len(own)), value=-1).to(device),
        None if pool is None else Pool(*(column.to(device) for column in pool)),
    )


def without_cut_off(
    batch: Batch, estimate: Estimate, turns: Sequence[Turn]
) -> tuple[Batch, Estimate]:
    """Both without the tokens of responses that the limit ended, which stay in their groups.

    The overlong filtering of DAPO (Yu et al., 2025, 3.4): these have no part in the loss.

    turns: of the batch, but for absent ones at its end
    """
    cut = [turn.cut_off for turn in turns] + [False] * (len(batch) - len(turns))
    mask = batch.response_mask & ~torch.tensor(cut, device=batch.credits.device)[:, None]
    logprobs, known, advantages = (
        torch.where(mask, column, 0.0)
        for column in (batch.logprobs, batch.ref_logprobs, estimate.advantages)
    )
    learnt = replace(batch, response_mask=mask, logprobs=logprobs, ref_logprobs=known)
    return learnt, estimate._replace(advantages=advantages)


# rewards (B,) of whole turns, their groups (B,), what they are compared with -> advantages (B,)
Compare = Callable[[Tensor, Tensor, Pool | None], Tensor]


def estimator_of(config: PPOConfig) -> Estimator:
    """The estimator that `algorithm.advantages` names."""
    if config.advantages == "gae":
        return partial(with_values, config=config)
    if config.advantages == "batch":
        return partial(over_batch, config=config)
    if config.advantages == "rae":  # credits are above the baselines of roles already
        return partial(within_groups, compare=lambda rewards, groups, pool: rewards)
    compare: Compare = leave_one_out
    if config.advantages == "group":
        compare = partial(group_relative, divide_by_std=config.divide_by_std)
    return partial(within_groups, compare=compare)


def with_values(batch: Batch, groups: Groups, kl_coef: float, config: PPOConfig) -> Estimate:
    """GAE; each token has an advantage of its own. Groups play no part."""
    assert batch.values is not None
    mask = batch.response_mask
    rewards = kl_penalised_rewards(batch.credits, batch.kl, mask, kl_coef)
    advantages, returns = gae(rewards, batch.values, mask, config.gamma, config.gae_lambda)
    return Estimate(whiten(advantages, mask) if config.whiten_advantages else advantages, returns)


def within_groups(batch: Batch, groups: Groups, kl_coef: float, compare: Compare) -> Estimate:
    """GRPO and RLOO: all tokens of a turn have its advantage over others of its group."""
    mask = batch.response_mask
    rewards = kl_penalised_rewards(batch.credits, batch.kl, mask, kl_coef).sum(1)
    advantages = compare(rewards, groups.own, groups.pool)
    return Estimate(torch.where(mask, advantages[:, None], 0.0), None)


def over_batch(batch: Batch, groups: Groups, kl_coef: float, config: PPOConfig) -> Estimate:
    """REINFORCE++: a token's rewards still to come, compared with those of all other tokens."""
    mask, credits = batch.response_mask, batch.credits
    if config.group_baseline:
        credits = credits - group_statistics(credits, groups.own).mean
    rewards = kl_penalised_rewards(credits, batch.kl, mask, kl_coef)
    return Estimate(batch_normalised(rewards, mask, config.gamma), None)


def critic_rows(agent: PPOPolicy, episodes: Sequence[Episode]) -> list[PlainRow]:
    """What the central critic of each of an agent's turns reads, in the order of the episodes."""
    return [
        critic_row(agent, episode, turn)
        for episode in episodes
        for turn in episode.turns
        if turn.agent == agent.name
    ]


def critic_batch(agent: PPOPolicy, episodes: Sequence[Episode], count: int) -> Tensor:
    """`critic_rows`, and absent ones up to `count`, as `critic` of `Batch`."""
    rows = critic_rows(agent, episodes)
    ids, attended, _ = agent.tensors([*rows, *[None] * (count - len(rows))])
    return torch.stack([ids, attended.long()], dim=1)


def critic_row(agent: PPOPolicy, episode: Episode, turn: Turn) -> PlainRow:
    """The response behind the prompt, and all utterances that cannot have depended on the turn.

    Those were asked before the turn was said: V(prompt, u_j for all j not caused by u_i) is a
    baseline of u_i, which leaves the expected gradient as it is (MAPPO: Yu et al., 2022).

    ConfigError where not even the prompt fits the model's context.
    """
    if turn.absent:
        return PlainRow(turn.context_ids, turn.response_ids)
    prompt, form = episode.prompt, agent.config.critic_template
    seen = [
        f"{other.role}: {other.text.strip()}"
        for other in episode.turns
        if other is not turn and not other.absent and other.asked_in <= turn.asked_in
    ]
    room = agent.bundle.context_length - len(turn.response_ids)
    for left_out in range(len(seen) + 1):
        said = "\n".join(seen[left_out:])
        asked = form.format(prompt=prompt.text, said=said, role=turn.role)
        ids = agent.texts.context_ids(prompt.asking(asked))
        if len(ids) <= room:
            return PlainRow(ids, turn.response_ids)
    raise ConfigError(
        f"algorithm.critic=central: prompt {prompt.id} in algorithm.critic_template and a response "
        f"exceed the context of {agent.bundle.said}, {agent.bundle.context_length} tokens"
    )


def sampler_weights(turns: Sequence[Turn], batch: Batch, cap: float) -> Tensor:
    """Truncated importance weights (B, R), min(trainer / sampler, cap) (Yao et al., 2025).

    turns: those of the batch; where a server samples, its probabilities are off by its rounding
    """
    sampled = torch.zeros_like(batch.logprobs)
    told = [logprob for turn in turns for logprob in turn.sampler_logprobs]
    sampled[batch.response_mask] = torch.tensor(told, device=sampled.device)
    return (batch.logprobs - sampled).exp().clamp(max=cap)


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
        "rollout/truncated_share": sum(turn.response_ids[-1] not in stops for turn in turns)
        / count,
    }
    if agent.texts.private:
        values["rollout/thinking_tokens"] = sum(turn.thinking_tokens for turn in turns) / count
    for part in turns[0].parts:
        applying = [own for turn in turns if (own := turn.parts[part]) is not None]
        if applying:
            values[f"reward/{part}"] = sum(applying) / len(applying)
    responses = [turn.response_ids for turn in turns]
    without_stops = [ids[:-1] if ids[-1] in stops else ids for ids in responses]
    for n in (1, 2):
        values[f"rollout/distinct_{n}"] = distinct_share(without_stops, n)
    k3 = sampled_kl(batch.logprobs, batch.ref_logprobs, "k3")
    values["objective/kl_k3"] = k3.sum().item() / count
    return {f"{key}/{agent.name}": value for key, value in values.items()}


def value_metrics(agent: str, batch: Batch, returns: Tensor | None) -> Metrics:
    """How well the value head predicted the returns of a roll-out; nothing where there is none."""
    if returns is None or batch.values is None:
        return {}
    mask = batch.response_mask
    spread = returns[mask].var(correction=0)
    error = (returns - batch.values)[mask].var(correction=0)
    explained = 1 - error / spread if spread > 0 else torch.zeros(())
    return {f"ppo/value/explained_variance/{agent}": float(explained)}


def copied_metrics(episodes: Sequence[Episode]) -> Metrics:
    """How much an agent's utterances copy what they were shown of the others' earlier ones."""
    shares: dict[str, list[float]] = defaultdict(list)
    for turns in (episode.turns for episode in episodes):
        for place, turn in enumerate(turns):
            others = [other for other in turns[:place] if other.speaker != turn.speaker]
            texts = [one.response.strip() for one in others]
            shown = [text.split() for text in texts if text and text in turn.context]
            for n in (1, 2) if shown else ():
                share = copied_share(turn.response.split(), shown, n)
                if share is not None:
                    shares[f"rollout/copied_{n}/{turn.agent}"].append(share)
    return {name: fmean(own) for name, own in shares.items()}
