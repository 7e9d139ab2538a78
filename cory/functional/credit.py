"""Credit assignment: from the scores of an episode to the credit of each of its turns.

A credit rule fills `turn.credit` of every turn and reads only what the reward filled in.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from cory.episode import Episode, Turn, score_of
from cory.functional.statistics import mean


def own_score(episodes: Iterable[Episode]) -> None:
    """The credit of a turn is its own score: r(s_0, a_i)."""
    for episode in episodes:
        for turn in episode.turns:
            turn.credit = score_of(turn)


def own_and_later(episodes: Iterable[Episode]) -> None:
    """The credit of a turn is its own score and those of the turns after it (ours).

    An answer changes no score of an earlier turn, so the expected gradient of the sum of all
    scores is the same as with their sum; what is left out is noise.
    """
    for episode in episodes:
        total = 0.0
        for turn in reversed(episode.turns):
            total += score_of(turn)
            turn.credit = total


def own_return(episodes: Iterable[Episode], discount: float = 1.0) -> None:
    """The credit of a turn is what its agent is paid from then on (ours)."""
    for episode in episodes:
        to_come: dict[str, float] = {}
        for turn in reversed(episode.turns):
            turn.credit = score_of(turn) + discount * to_come.get(turn.speaker, 0.0)
            to_come[turn.speaker] = turn.credit


def mean_over_agents(episodes: Iterable[Episode]) -> None:
    """The credit of a turn is the sum of all scores over the number of agents that spoke (ours)."""
    for episode in episodes:
        total = sum(score_of(turn) for turn in episode.turns)
        for turn in episode.turns:
            turn.credit = total / len({one.speaker for one in episode.turns})


def penalise_overlong(turns: Iterable[Turn], limit: int, buffer: int) -> None:
    """Take from long responses' credits: 0 up to limit - buffer tokens, 1 at the limit.

    Between them it grows evenly: the soft overlong punishment of DAPO (Yu et al., 2025, eq. 13).
    """
    for turn in turns:
        if not turn.absent:
            over = len(turn.response_ids) - (limit - buffer)
            turn.credit = (turn.credit or 0.0) - max(0, over) / buffer


def rounds_of(episode: Episode, agents: int) -> list[list[Turn]]:
    """[round][agent]: the turns of a debate, without the rounds that it did not reach."""
    turns = episode.turns
    rounds = [turns[start : start + agents] for start in range(0, len(turns), agents)]
    return [turns for turns in rounds if not turns[0].absent]


def influence_aware(
    scores: Sequence[Sequence[float]], t: int, a: int, discount: float, horizon: str, share: str
) -> float:
    """Discounted mean of the scores of an answer and of those after it (Park et al., Def. 1).

    scores: [round][agent], of all rounds of the debate
    t, a: round and agent of the answer
    horizon: discounted_sum: this and all later rounds, divided by the sum of the discounts |
        last | current: the scores of one round only
    share: all: the mean over all agents of a round; with discounted_sum the answer's own round
        counts by the answer's own score alone | individual: scores of agent a only
    """

    def shared(row: Sequence[float]) -> float:
        return sum(row) / len(row) if share == "all" else row[a]

    if horizon == "last":
        return shared(scores[-1])
    if horizon == "current":
        return shared(scores[t])
    weights = [discount**later for later in range(len(scores) - t)]
    later = sum(w * shared(row) for w, row in zip(weights[1:], scores[t + 1 :], strict=True))
    return (scores[t][a] + later) / sum(weights)


def incentives(
    right: Sequence[Sequence[bool]], alpha: Sequence[float], beta: Sequence[float], official: bool
) -> list[list[float]]:
    """[round][agent]: bonuses for revising and for persuading (Park et al., Tables 1 and 2).

    right: [round][agent]
    alpha: for an agent that revises its answer, at the later round: plus for a revision to the
        right answer, minus to a wrong one; alpha_0 beside a wrong majority of the others, alpha_1
        beside a right one
    beta: for an agent beside whom the majority of the others changes, at the earlier round; plus
        for a change to the right answer, minus to a wrong one; beta_0 where the agent itself was
        wrong, beta_1 where it was right
    official: as the released code, which swaps two alphas and two betas, inverts beta's signs,
        pays nothing at the first turn and pays an agent alone
    Where the others are split evenly, or there are none (unless `official`), the bonus is 0.
    """
    bonuses = [[0.0] * len(row) for row in right]
    for t, a, before, corrected, others, others_after in answer_changes(right):
        alone = official and len(right[t]) == 1
        if before != corrected and (alone or others is not None):
            second = alone or others != (official and corrected)
            bonuses[t][a] += alpha[second] if corrected else -alpha[second]
        if others is None or others_after is None or others == others_after:
            continue
        persuaded = others_after
        if not official:
            bonuses[t - 1][a] += beta[before] if persuaded else -beta[before]
        elif t > 1:  # the released code has no bonus in the first round
            bonuses[t - 1][a] += -beta[before] if persuaded else beta[not before]
    return bonuses


def outcome_decay(turns: int, decay: float) -> list[float]:
    """Share of a game's reward for each of the winner's turns, growing (Cheng et al., App. B).

    turns: T, of the winner in a finished game
    decay: gamma; the share of a turn is gamma times that of the next one
    returns: T shares above 0, which add up to 1 as the paper says; its 1 - gamma^(T + 1) below the
        fraction, where 1 - gamma^T stands here, would give less
    """
    whole = 1 - decay**turns
    return [(1 - decay) * decay ** (turns - turn) / whole for turn in range(1, turns + 1)]


def repeats(ids: Sequence[int], longest: int, times: int) -> bool:
    """Whether a run of at most `longest` tokens occurs more than `times` times in a row."""
    for length in range(1, longest + 1):
        # `length` tokens in a row that equal the ones `length` places before are one repetition
        same = 0
        for i in range(length, len(ids)):
            same = same + 1 if ids[i] == ids[i - length] else 0
            if 1 + same // length > times:
                return True
    return False


class Change(NamedTuple):
    """The answers of one agent, and the majority of the others, in two successive rounds."""

    turn: int  # number of the later round, from 1
    agent: int
    before: bool  # the agent's own answer
    after: bool
    others_before: bool | None  # None: no majority
    others_after: bool | None


def others_majority(right: Sequence[bool], agent: int) -> bool | None:
    """Whether most other agents are right; None where they are split evenly or there are none."""
    others = [value for number, value in enumerate(right) if number != agent]
    if 2 * sum(others) == len(others):
        return None
    return 2 * sum(others) > len(others)


def answer_changes(right: Sequence[Sequence[bool]]) -> Iterator[Change]:
    """The change of every agent in every round but the first.

    right: [round][agent], whether the answer is right
    """
    for turn, (before, after) in enumerate(pairwise(right), 1):
        for agent, (own, own_after) in enumerate(zip(before, after, strict=True)):
            others, others_after = others_majority(before, agent), others_majority(after, agent)
            yield Change(turn, agent, own, own_after, others, others_after)


def transition_rates(changes: Sequence[Change]) -> dict[str, float]:
    """Rates of each kind of change; rates without any case are left out.

    flow_rw and so on: share of all answers that were right (r) before and are wrong (w) after; the
        four add up to 1
    revision_wr_r and so on: of the answers that were wrong beside a right majority, the share that
        is right afterwards (Park et al., Table 1)
    influence_wr_r and so on: of the majorities that were wrong beside a right answer of the agent,
        the share that is right afterwards (Park et al., Table 2)
    """
    if not changes:
        return {}
    letter = {True: "r", False: "w"}
    rates = {
        f"flow_{letter[before]}{letter[after]}": mean(
            (c.before, c.after) == (before, after) for c in changes
        )
        for before in (True, False)
        for after in (True, False)
    }
    for before, after in ((False, True), (True, False)):
        change = f"{letter[before]}{letter[after]}"
        for beside in (False, True):
            own = [c for c in changes if c.before is before and c.others_before is beside]
            if own:
                rates[f"revision_{change}_{letter[beside]}"] = mean(c.after is after for c in own)
            others = [c for c in changes if c.others_before is before and c.before is beside]
            if others:
                share = mean(c.others_after is after for c in others)
                rates[f"influence_{change}_{letter[beside]}"] = share
    return rates
