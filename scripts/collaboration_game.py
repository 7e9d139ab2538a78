"""The toy collaboration game of MAPoRL (Park et al., 2025, section 2), solved exactly.

Two agents play T turns. In each turn both choose at once to collaborate (a_0) or to act
independently (a_1). The game has a hidden threshold C of joint collaborations:

    acting independently pays R_ind; collaborating pays R_col until both have collaborated in C
    turns, and R_syn from then on

with R_col < R_ind < R_syn. Both agents know the number of joint collaborations so far and whether
the synergy is reached; of C they know the distribution. Rewards are not discounted, and an agent's
objective is the sum of its rewards plus tau times the entropy of its actions.

From the paper: the actions, the order of the rewards, R_syn = 1, the horizons 10 and 20, pi in
.5, .6, .7, tau = .1, backward induction, and two observations; its App. D with the rest was not
at hand. Ours: which turns count towards C (those in which both collaborate), which agents get R_syn
(those that collaborate once C is reached, whatever the other does), the observed state, the entropy
term of an agent against a fixed opponent, R_col, R_ind and the distribution of C. Rewards and count
are the simplest ones that make Observation 1 exact (`observation_1`, ties included).

Observation 2 is exact, too, for the equilibrium with most collaboration (`MOST`). At a low tau
there may be several equilibria: at tau -> 0 no collaboration at all is one in every game with T = 2
and C = 1. The first term of the printed condition, 3 R_col - 2 R_ind, is less than R_col and never
decides. For the equilibrium on the side of the best response to a coin (`EVEN`) the condition is
R_syn > 3 R_ind - 2 R_col: the printed term with R_col and R_ind exchanged. With
tau >= (R_ind - R_col) / 2 there is one equilibrium, and the choice has no effect.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise, product

# (turn, joint collaborations so far, cost of collaborating now, later gain if the other agent
# collaborates, too) -> probability that the other agent collaborates
Opponent = Callable[[int, int, float, float], float]

MOST, EVEN = "most", "even"
EQUILIBRIA = (MOST, EVEN)
COLD = 1e-3  # temperature that stands for the limit 0


@dataclass(frozen=True)
class Game:
    """The rules of one game."""

    turns: int  # T
    threshold: tuple[float, ...]  # probability that C is 1, 2, 3, ...
    r_syn: float
    r_ind: float
    r_col: float

    def __post_init__(self) -> None:
        """Raises ValueError for settings that are no such game."""
        if self.turns < 1:
            raise ValueError(f"turns={self.turns} must be at least 1")
        if not self.r_col < self.r_ind < self.r_syn:
            order = f"r_col={self.r_col}, r_ind={self.r_ind}, r_syn={self.r_syn}"
            raise ValueError(f"{order} must be in increasing order")
        if min(self.threshold, default=-1) < 0 or not math.isclose(sum(self.threshold), 1):
            raise ValueError(f"threshold={self.threshold} must be probabilities that add up to 1")

    def chance(self, done: int) -> float:
        """Probability that the next joint collaboration reaches the threshold.

        done: joint collaborations so far, without reaching it
        """
        beyond = sum(self.threshold[done:])
        return self.threshold[done] / beyond if beyond > 0 else 1.0


@dataclass(frozen=True)
class Strategy:
    """Probability that an agent collaborates, for every state of the game."""

    before: tuple[tuple[float, ...], ...]  # [turn][joint collaborations so far], without synergy
    after: tuple[float, ...]  # [turn], with synergy


def exactly(threshold: int) -> tuple[float, ...]:
    """The distribution of a known threshold."""
    if threshold < 1:
        raise ValueError(f"the threshold must be at least 1, got {threshold}")
    return (0.0,) * (threshold - 1) + (1.0,)


def uniform(most: int) -> tuple[float, ...]:
    """The distribution of a threshold that is 1, 2, ..., `most` with equal probability."""
    if most < 1:
        raise ValueError(f"the largest threshold must be at least 1, got {most}")
    return (1 / most,) * most


def constant(game: Game, pi: float) -> Strategy:
    """The strategy that collaborates with probability `pi` in every state."""
    if not 0 <= pi <= 1:
        raise ValueError(f"pi={pi} must lie between 0 and 1")
    states = len(game.threshold)
    return Strategy(((pi,) * states,) * game.turns, (pi,) * game.turns)


def response(game: Game, opponent: Strategy, tau: float) -> Strategy:
    """The best response to an opponent, by backward induction.

    tau: weight of the entropy; 0: the best response without entropy, which collaborates in a tie
    """
    if tau < 0:
        raise ValueError(f"tau={tau} must not be negative")
    return _induce(game, tau, lambda turn, done, loss, gain: opponent.before[turn][done])


def joint(game: Game, tau: float, equilibrium: str = MOST) -> Strategy:
    """The strategy of both agents in a symmetric entropy-regularised Nash equilibrium.

    By backward induction: in each state both respond to each other's strategy of this turn, given
    the value of the rest of the game under the equilibrium.

    tau: weight of the entropy, above 0
    equilibrium: choice where a state has several: `most`: the one with most collaboration | `even`:
        the one on the side of the best response to an opponent who tosses a coin (collaboration in
        a tie)
    """
    if tau <= 0:
        raise ValueError(f"tau={tau} must be above 0")
    if equilibrium not in EQUILIBRIA:
        raise ValueError(f"equilibrium={equilibrium} must be one of {', '.join(EQUILIBRIA)}")

    def stage(turn: int, done: int, loss: float, gain: float) -> float:
        if equilibrium == EVEN and gain / 2 < loss:
            return 1 - _highest(loss - gain, gain, tau)  # the lowest: the same game, mirrored
        return _highest(-loss, gain, tau)

    return _induce(game, tau, stage)


def collaboration(game: Game, policy: Strategy, opponent: Strategy) -> list[float]:
    """Probability that an agent collaborates in each turn against the opponent."""
    waiting = [1.0] + [0.0] * (len(game.threshold) - 1)  # by joint collaborations so far
    synergy = 0.0
    probabilities = []
    for mine, others, later in zip(policy.before, opponent.before, policy.after, strict=True):
        probabilities.append(
            sum(p * x for p, x in zip(waiting, mine, strict=True)) + synergy * later
        )
        moved = [p * x * y for p, x, y in zip(waiting, mine, others, strict=True)]
        reached = [p * game.chance(done) for done, p in enumerate(moved)]
        synergy += sum(reached)
        on = [p - r for p, r in zip(moved, reached, strict=True)][:-1]
        waiting = [p - m + o for p, m, o in zip(waiting, moved, [0.0, *on], strict=True)]
    return probabilities


def observation_1(game: Game, pi: float) -> bool:
    """The printed condition for collaborating in turn 1 of T = 2, C = 1 with a fixed opponent.

    (R_syn - R_ind) pi >= R_ind - R_col
    """
    return (game.r_syn - game.r_ind) * pi >= game.r_ind - game.r_col


def observation_2(game: Game) -> bool:
    """The printed condition for joint collaboration in turn 1 of T = 2, C = 1, tau -> 0.

    R_syn > max(3 R_col - 2 R_ind, 2 R_ind - R_col)
    """
    return game.r_syn > max(3 * game.r_col - 2 * game.r_ind, 2 * game.r_ind - game.r_col)


def disagreements(r_syn: float, steps: int) -> dict[str, tuple[int, int]]:
    """Observation -> points where backward induction differs from the printed condition, of all.

    Two turns, threshold 1; rewards from -r_syn to r_syn and pi from 0 to 1 in equal steps. With
    steps that are a power of 2 also the points on the border are exact.
    """
    levels = [r_syn * step / steps for step in range(-steps, steps)]
    games = [
        Game(2, exactly(1), r_syn, ind, col) for ind, col in product(levels, levels) if col < ind
    ]
    points = list(product(games, [step / steps for step in range(steps + 1)]))
    wrong = sum(
        (response(game, constant(game, pi), 0).before[0][0] == 1) != observation_1(game, pi)
        for game, pi in points
    )
    found = {"observation_1": (wrong, len(points))}
    for name, equilibrium in (("observation_2", MOST), ("observation_2_even", EVEN)):
        wrong = sum(
            (joint(game, COLD * r_syn, equilibrium).before[0][0] > 0.5) != observation_2(game)
            for game in games
        )
        found[name] = (wrong, len(games))
    return found


def _induce(game: Game, tau: float, opponent: Opponent) -> Strategy:
    """The best response to an opponent by backward induction, last turn first."""
    loss = game.r_ind - game.r_col
    before: list[tuple[float, ...]] = []
    values, value_after = [0.0] * (len(game.threshold) + 1), 0.0  # of the turns to come
    for turn in reversed(range(game.turns)):
        policy, now = [], []
        for done, (stay, step) in enumerate(pairwise(values)):
            chance = game.chance(done)
            # past the largest possible threshold the synergy is certain: `step` has weight 0
            gain = chance * value_after + (1 - chance) * step - stay
            joined = opponent(turn, done, loss, gain)
            collaborate, alone = game.r_col + joined * gain, game.r_ind
            policy.append(_choice(collaborate - alone, tau))
            now.append(stay + _worth(collaborate, alone, tau))
        before.append(tuple(policy))
        values = [*now, 0.0]
        value_after += _worth(game.r_syn, game.r_ind, tau)
    after = _choice(game.r_syn - game.r_ind, tau)
    return Strategy(tuple(reversed(before)), (after,) * game.turns)


def _choice(advantage: float, tau: float) -> float:
    """Probability of an action whose value exceeds that of the other one by `advantage`."""
    if tau == 0:
        return float(advantage >= 0)
    return _sigmoid(advantage / tau)


def _worth(one: float, other: float, tau: float) -> float:
    """Value of a choice between two actions of these values, its entropy included."""
    high, low = max(one, other), min(one, other)
    return high if tau == 0 else high + tau * math.log1p(math.exp((low - high) / tau))


def _sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)) without overflow."""
    small = math.exp(-abs(x))
    return 1 / (1 + small) if x >= 0 else small / (1 + small)


def _highest(base: float, gain: float, tau: float) -> float:
    """The largest x with x = sigmoid((base + gain x) / tau).

    f(x) = sigmoid(..) - x falls everywhere if gain <= 4 tau. Else it falls, rises and falls again;
    the largest zero lies on the last stretch if f is not below 0 where that begins, else on the
    first.
    """
    a, b = base / tau, gain / tau
    low, high = 0.0, 1.0
    if b > 4:
        # where f is level, the sigmoid s has s (1 - s) = 1 / b: `top`, and 1 - top = odds * top
        top = (1 + math.sqrt(1 - 4 / b)) / 2
        odds = 1 / (b * top * top)
        begins, ends = (-math.log(odds) - a) / b, (math.log(odds) - a) / b
        if top >= begins:
            low = min(max(begins, 0.0), 1.0)
        else:
            high = min(max(ends, 0.0), 1.0)
    return _zero(a, b, low, high)


def _zero(a: float, b: float, low: float, high: float) -> float:
    """Where sigmoid(a + b x) - x, which falls from `low` to `high`, is 0, by halving."""
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return middle
        if _sigmoid(a + b * middle) >= middle:
            low = middle
        else:
            high = middle
