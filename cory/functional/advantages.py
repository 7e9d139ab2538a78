"""From credits to advantages: scaling, KL penalty and its controller, token rewards, estimators.

Four estimators. `gae` needs a value head and gives every token an advantage of its own.
`group_relative` and `leave_one_out` compare a turn with the others of its group, and
`batch_normalised` the tokens of a batch with each other: these three need no value head.

Letters: B turns, R response tokens. Column t of a (B, R) tensor belongs to response token t.
`groups` is (B,) int64, as of `groups_of`: turns with the same number form a group, and a turn with
a negative number is absent: it belongs to no group and its advantage is 0. A `Pool` is what they
are compared with instead of each other, where that is more than the turns of one agent.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from cory.episode import Episode
from cory.functional.logprobs import whiten

STD_EPSILON = 1e-4  # added to a group's standard deviation, as in TRL
FLOAT32_EPSILON = 2.0**-23


@dataclass
class RunningMoments:
    """Count, mean and variance of all numbers so far, merged batch by batch (Chan et al., 1979)."""

    count: float = 0.0
    mean: float = 0.0
    variance: float = 1.0  # population variance; 1 before the first batch

    def update(self, numbers: Sequence[float]) -> None:
        """Adds a batch of at least one number."""
        n = len(numbers)
        mean = sum(numbers) / n
        squares = sum((x - mean) ** 2 for x in numbers)
        total = self.count + n
        shift = mean - self.mean
        old_squares = self.variance * self.count + shift**2 * self.count * n / total
        self.mean += shift * n / total
        self.variance = (old_squares + squares) / total
        self.count = total

    @property
    def std(self) -> float:
        """Unbiased standard deviation; 1 while all numbers are equal, so that it divides by 1."""
        if self.count < 2 or self.variance <= 1e-12 * max(1.0, self.mean**2):
            return 1.0
        return math.sqrt(self.variance * self.count / (self.count - 1))


def above_baselines(
    credits: Sequence[float], roles: Sequence[str], baselines: dict[str, float], decay: float
) -> list[float]:
    """Credits minus the baseline of their role: SPIRAL's role-conditioned advantage (Liu et al.).

    baselines: role -> exponential mean of its credits, which first takes in the mean of these (the
        paper's: one by one); a role's first mean is its baseline
    decay: alpha, the weight of what was before
    """
    for role in dict.fromkeys(roles):
        own = [credit for credit, who in zip(credits, roles, strict=True) if who == role]
        now = sum(own) / len(own)
        baselines[role] = decay * baselines.get(role, now) + (1 - decay) * now
    return [credit - baselines[role] for credit, role in zip(credits, roles, strict=True)]


def scaled_credits(
    numbers: Sequence[float], moments: RunningMoments, scaling: str, clip: float | None
) -> list[float]:
    """Credits scaled by the running statistics, then clipped (TRL's score scaling).

    scaling: none | scale: divided by the running deviation | normalise: less the running mean, too
    clip: bound on the absolute value, or None
    """
    if scaling != "none":
        shift = moments.mean if scaling == "normalise" else 0.0
        numbers = [(x - shift) / (moments.std + FLOAT32_EPSILON) for x in numbers]
    return list(numbers) if clip is None else [max(-clip, min(clip, x)) for x in numbers]


@dataclass
class CreditScale:
    """How the credits of a policy are scaled, by statistics of all of them so far."""

    scaling: str  # as of `scaled_credits`
    clip: float | None
    decay: float | None  # of the baselines of roles; None: there are none
    moments: RunningMoments = field(default_factory=RunningMoments)
    baselines: dict[str, float] = field(default_factory=dict)

    def __call__(self, credits: Sequence[float], roles: Sequence[str]) -> list[float]:
        """Credits, of turns in these roles, as they count; the statistics take them in first."""
        if self.scaling != "none":
            self.moments.update(credits)
        found = scaled_credits(credits, self.moments, self.scaling, self.clip)
        if self.decay is None:
            return found
        return above_baselines(found, roles, self.baselines, self.decay)


def adapted_kl_coef(kl_coef: float, kl: float, target: float, horizon: int, turns: int) -> float:
    """The next KL coefficient: up when KL exceeds the target, down below (Ziegler et al., 2019).

    kl: mean over turns of the KL summed over tokens, nats
    horizon: turns over which a 20 % deviation would change the coefficient by about e^0.2
    turns: turns since the last call; at most `horizon` count, so that the result stays above 0
    """
    error = max(-0.2, min(0.2, kl / target - 1))
    return kl_coef * (1 + error * min(1.0, turns / horizon))


def last_token(mask: Tensor) -> Tensor:
    """True at the last real token of each row; all False in a row without tokens.

    mask: (B, R) bool, True on a run of tokens that starts in column 0
    """
    return mask & ~F.pad(mask[:, 1:], (0, 1))


def kl_penalised_rewards(credits: Tensor, kl: Tensor, mask: Tensor, kl_coef: float) -> Tensor:
    """Token rewards: -kl_coef * KL, plus the credit on the last token (Ma et al., eq. 2).

    credits: (B,) credit of each turn
    kl: (B, R) KL to the reference at each token, in nats
    mask: (B, R) bool, True on response tokens
    returns: (B, R)
    """
    penalty = torch.where(mask, -kl_coef * kl, 0.0)
    return penalty + torch.where(last_token(mask), credits[:, None], 0.0)


def gae(
    rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, gae_lambda: float
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimates (Schulman et al., 2016; Ma et al., eq. 12, corrected).

    The value after the last real token is 0: the episode ends there, whether the model stopped
    by itself or ran into the length limit.

    rewards, values: (B, R)
    mask: (B, R) bool, True on response tokens
    returns: advantages (B, R), returns (B, R) = advantages + values; 0 where the mask is False
    """
    rewards, values = torch.where(mask, rewards, 0.0), torch.where(mask, values, 0.0)
    advantages = torch.zeros_like(values)
    running = next_value = torch.zeros_like(values[:, 0])
    for t in reversed(range(values.shape[1])):
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        running = torch.where(mask[:, t], delta + gamma * gae_lambda * running, 0.0)
        advantages[:, t] = running
        next_value = values[:, t]
    return advantages, advantages + values


class Pool(NamedTuple):
    """What turns are compared with, (M,) each: credits, and the group that each is of."""

    credits: Tensor
    groups: Tensor  # int64


def group_relative(
    rewards: Tensor, groups: Tensor, pool: Pool | None = None, *, divide_by_std: bool
) -> Tensor:
    """Reward minus the group's mean, over its standard deviation (GRPO: Shao et al., 2024, 4.1.2).

    In a group whose rewards are all equal every advantage is 0, exactly.

    rewards: (B,), of whole turns; so is the result
    pool: of the mean and the deviation; None: the rewards
    divide_by_std: False leaves out the division (Dr. GRPO: Liu et al., 2025)
    """
    stats = group_statistics(rewards, groups, pool)
    centred = torch.where(stats.equal, 0.0, rewards - stats.mean)
    return centred / (stats.std + STD_EPSILON) if divide_by_std else centred


def leave_one_out(rewards: Tensor, groups: Tensor, pool: Pool | None = None) -> Tensor:
    """Reward minus the mean of the group's other rewards (RLOO: Ahmadian et al., 2024).

    In a group whose rewards are all equal, as in one of a single turn, every advantage is 0.

    rewards: (B,), of whole turns; so is the result
    pool: of the mean, the rewards among it; None: the rewards
    """
    stats = group_statistics(rewards, groups, pool)
    others = (stats.mean * stats.turns - rewards) / (stats.turns - 1).clamp(min=1)
    return torch.where(stats.equal, 0.0, rewards - others)


def batch_normalised(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    """Rewards still to come, whitened over all tokens of the batch (REINFORCE++: Hu, 2025).

    rewards: (B, R), per token
    mask: (B, R) bool, True on response tokens; at least two True
    gamma: discount per token; 1 in the paper
    returns: (B, R), 0 where the mask is False
    """
    # without values, and with lambda 1, GAE's advantages are the rewards still to come
    to_go, _ = gae(rewards, torch.zeros_like(rewards), mask, gamma, gae_lambda=1.0)
    return whiten(to_go, mask)


def groups_of(episodes: Sequence[Episode], agent: str, samples: int, by: str = "turn") -> Tensor:
    """The group of each turn of an agent, of those about one query.

    by: `turn`: turns of one role, which has spoken equally often before (AT-GRPO: Zhao et al.,
        2025); `agent`: all turns of one role (Dr. MAS: Feng et al., 2026); `prompt`, `episode`: all
        turns about the query, whosever they are, to be compared with `pool_of` these

    With `turn`, contexts are equal where an agent sees the bare query. An observer, or an agent
    that speaks later, also sees earlier answers, which differ within the group.

    episodes: `samples` of each query, one after another
    returns: (B,) int64, in the order of `turns_of`; -1 for absent turns
    """
    numbers: dict[tuple[int | str, ...], int] = {}
    found = []
    for place, episode in enumerate(episodes):
        spoken: Counter[str] = Counter()
        for turn in episode.turns:
            key = (place // samples, turn.role, spoken[turn.role] if by == "turn" else 0)
            spoken[turn.role] += 1
            if turn.agent == agent:
                own = by in ("turn", "agent")
                number = numbers.setdefault(key, len(numbers)) if own else place // samples
                found.append(-1 if turn.absent else number)
    return torch.tensor(found, dtype=torch.int64)


def pool_of(episodes: Sequence[Episode], samples: int, by: str) -> Pool | None:
    """What turns are compared with, if not with the others of their agent alone.

    by: `prompt`: all turns of all agents about a query (Dr. MAS's global baseline); `episode`: the
        joint return of each of its episodes, which is the credit of every turn there (MAGRPO: Liu
        et al., 2025); others: None
    """
    if by in ("turn", "agent"):
        return None
    groups, credits = [], []
    for place, episode in enumerate(episodes):
        present = [turn for turn in episode.turns if not turn.absent]
        for turn in present[:1] if by == "episode" else present:
            groups.append(place // samples)
            credits.append(turn.credit or 0.0)
    return Pool(torch.tensor(credits), torch.tensor(groups))


def equal_prompts(
    episodes: Sequence[Episode], agents: Iterable[str], samples: int, by: str
) -> list[int]:
    """Numbers of the prompts that teach none of the agents: their groups have equal credits.

    episodes: `samples` of each prompt, one after another, with credits; by: as of `groups_of`
    """
    taught, pool = set(), pool_of(episodes, samples, by)
    for agent in agents:
        own = [(n // samples, t) for n, e in enumerate(episodes) for t in e.turns]
        own = [(place, turn) for place, turn in own if turn.agent == agent]
        if not own:  # nobody has asked it
            continue
        credits = torch.tensor([turn.credit or 0.0 for _, turn in own], dtype=torch.float32)
        stats = group_statistics(credits, groups_of(episodes, agent, samples, by), pool)
        taught |= {place for (place, _), equal in zip(own, stats.equal, strict=True) if not equal}
    return [place for place in range(len(episodes) // samples) if place not in taught]


class GroupStatistics(NamedTuple):
    """Of each turn's group, all (B,)."""

    mean: Tensor
    std: Tensor  # unbiased, as in TRL; 0 for one turn
    turns: Tensor  # how many the group has; 0 for absent turns
    equal: Tensor  # bool, True where all rewards of the group are equal, and for absent turns


def group_statistics(rewards: Tensor, groups: Tensor, pool: Pool | None = None) -> GroupStatistics:
    """Statistics of each turn's group, from rewards (B,) and groups (B,), or in a pool."""
    # a (B, M) table and sums along its rows: on a GPU sums by index have no fixed order, and a
    # resumed run would not end with the same bits
    values, pooled = (rewards, groups) if pool is None else pool
    same = (groups[:, None] == pooled[None, :]) & (groups >= 0)[:, None]
    count = same.sum(1)
    mean = torch.where(same, values, 0.0).sum(1) / count.clamp(min=1)
    squares = torch.where(same, (values[None, :] - mean[:, None]) ** 2, 0.0).sum(1)
    lowest = torch.where(same, values, torch.inf).amin(1)
    highest = torch.where(same, values, -torch.inf).amax(1)
    std = (squares / (count - 1).clamp(min=1)).sqrt()
    return GroupStatistics(mean, std, count, lowest >= highest)


def equal_groups(credits: Tensor, groups: Tensor) -> float:
    """Share of the groups of two or more turns in which all credits are equal, 0 to 1.

    The credits of such a group teach nothing; a KL penalty that is part of the reward still may.

    credits: (B,); the result is 0 where no group has two turns
    """
    stats = group_statistics(credits, groups)
    several = stats.turns > 1
    weights = torch.where(several, 1 / stats.turns.clamp(min=1), 0.0)  # each group counts once
    return float((weights * stats.equal).sum() / weights.sum().clamp(min=1))
