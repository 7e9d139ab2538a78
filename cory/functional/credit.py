"""Credit rules: from the scores of an episode to what each turn is worth to its speaker.

A rule fills `turn.credit` of every turn and reads nothing but what the judge filled in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cory.episode import Episode, Turn
from cory.functional.transitions import others_majority


def own_score(episodes: Iterable[Episode]) -> None:
    """Each turn is worth its own score: r(s_0, a_i)."""
    for episode in episodes:
        for turn in episode.turns:
            turn.credit = _score(turn)


def shared_sum(episodes: Iterable[Episode]) -> None:
    """Each turn is worth the sum of all scores of its episode (Ma et al., eq. 4)."""
    for episode in episodes:
        total = sum(_score(turn) for turn in episode.turns)
        for turn in episode.turns:
            turn.credit = total


@dataclass(frozen=True)
class DebateCredit:
    """What an answer in a debate is worth: Definition 1 or a variant, and the incentives."""

    agents: int
    horizon: str  # discounted_sum | last | current
    share: str  # all | individual
    discount: float  # gamma, per turn
    alpha: tuple[float, float]  # alpha_0, alpha_1
    beta: tuple[float, float]  # beta_0, beta_1
    official: bool  # incentives as the released code pays them
    bonus_from: str  # ground_truth | verifier
    penalty: float  # in place of the score of a flawed turn
    scope: str  # own | propagate

    def __call__(self, episodes: Iterable[Episode]) -> None:
        """Fill `turn.credit` and `turn.bonus` from `turn.score`, `turn.right`, `turn.flawed`."""
        for episode in episodes:
            rounds = rounds_of(episode, self.agents)
            right = [[self._right(turn) for turn in turns] for turns in rounds]
            bonuses = incentives(right, self.alpha, self.beta, self.official)
            scores = [[_score(turn) for turn in turns] for turns in rounds]
            paid = [
                [self.penalty if turn.flawed else _score(turn) for turn in turns]
                for turns in rounds
            ]
            for t, turns in enumerate(rounds):
                for a, turn in enumerate(turns):
                    seen = paid if self.scope == "propagate" else [list(row) for row in scores]
                    seen[t][a] = paid[t][a]
                    turn.bonus = bonuses[t][a]
                    turn.credit = turn.bonus + influence_aware(
                        seen, t, a, self.discount, self.horizon, self.share
                    )

    def _right(self, turn: Turn) -> bool:
        if self.alpha == self.beta == (0.0, 0.0):
            return False  # nothing is paid, so nobody needs to know
        if self.bonus_from == "verifier":
            return _score(turn) > 0.5
        if turn.right is None:
            raise ValueError(f"nobody said whether the turn of {turn.agent} is right")
        return turn.right


def rounds_of(episode: Episode, agents: int) -> list[list[Turn]]:
    """The turns of a debate by turn and agent, as far as it went."""
    turns = episode.turns
    rounds = [turns[start : start + agents] for start in range(0, len(turns), agents)]
    return [own for own in rounds if not own[0].absent]


def influence_aware(
    scores: Sequence[Sequence[float]], t: int, a: int, discount: float, horizon: str, share: str
) -> float:
    """What the answer of agent a at turn t is worth (Park et al., Definition 1).

    scores: [turn][agent], of all turns that there were
    horizon: discounted_sum: of this turn and all later ones, divided by the sum of the discounts |
        last | current: of one turn only
    share: all: later scores are averaged over all agents; with last and current, the one turn's are
        | individual: own scores only
    """

    def mean(row: Sequence[float]) -> float:
        return sum(row) / len(row) if share == "all" else row[a]

    if horizon == "last":
        return mean(scores[-1])
    if horizon == "current":
        return mean(scores[t])
    if horizon != "discounted_sum":
        raise ValueError(f"unknown horizon '{horizon}'")
    weights = [discount**later for later in range(len(scores) - t)]
    later = sum(
        weight * mean(row) for weight, row in zip(weights[1:], scores[t + 1 :], strict=True)
    )
    return (scores[t][a] + later) / sum(weights)


def incentives(
    right: Sequence[Sequence[bool]],
    alpha: tuple[float, float],
    beta: tuple[float, float],
    official: bool,
) -> list[list[float]]:
    """What is paid on top, by turn and agent (Park et al., Tables 1 and 2).

    alpha: for revising one's own answer, paid at the later turn; the second beside a right majority
        of the others, the first beside a wrong one
    beta: for what becomes of the others' majority, paid at the earlier turn; the second where one's
        own answer was right there, the first where it was wrong
    official: as the released code (detail 31)
    Where the others are split evenly, nothing is paid.
    """
    paid = [[0.0] * len(row) for row in right]
    for t in range(1, len(right)):
        for a in range(len(right[t])):
            before, after = right[t - 1][a], right[t][a]
            others, others_after = others_majority(right[t - 1], a), others_majority(right[t], a)
            if others is not None and before != after:
                gained = after
                second = others != (official and gained)
                paid[t][a] += alpha[second] if gained else -alpha[second]
            if others is None or others_after is None or others == others_after:
                continue
            persuaded = others_after
            if official:
                if t > 1:  # it pays nothing at the first turn
                    paid[t - 1][a] += -beta[before] if persuaded else beta[not before]
            else:
                paid[t - 1][a] += beta[before] if persuaded else -beta[before]
    return paid


def _score(turn: Turn) -> float:
    if turn.score is None:
        raise ValueError(f"the turn of {turn.agent} ({turn.role}) has no score")
    return turn.score


def outcome_decay(turns: int, decay: float, normaliser: str) -> list[float]:
    """What each of a winner's turns is worth: the last one most (Cheng et al., App. B).

    turns: T, of the winner in a game that is over
    decay: gamma; a turn is worth gamma times the one after it
    normaliser: exact: the turns' worth adds up to 1, as the paper says it does; printed: divided
        by the paper's 1 - gamma^(T + 1), with which it adds up to less
    returns: T numbers above 0
    """
    if normaliser not in ("exact", "printed"):
        raise ValueError(f"unknown normaliser '{normaliser}'; choose exact or printed")
    whole = 1 - decay ** (turns + (normaliser == "printed"))
    return [(1 - decay) * decay ** (turns - turn) / whole for turn in range(1, turns + 1)]
