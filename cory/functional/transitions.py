"""How right and wrong answers change from one turn of a debate to the next.

An episode is `right[t][a]`: whether the answer of agent a at turn t is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Rightness = Sequence[Sequence[bool]]  # [turn][agent]

LETTER = {True: "r", False: "w"}


class Change(NamedTuple):
    """One agent between two turns, beside the majority of the others."""

    turn: int  # the later one, from 1 (turns count from 0)
    before: bool  # the agent's own answer
    after: bool
    others_before: bool | None  # None: no majority
    others_after: bool | None


def others_majority(right: Sequence[bool], agent: int) -> bool | None:
    """Whether most of the others are right; None where they are split evenly or there are none."""
    others = [value for number, value in enumerate(right) if number != agent]
    if 2 * sum(others) == len(others):
        return None
    return 2 * sum(others) > len(others)


def answer_changes(right: Rightness) -> Iterator[Change]:
    """Every agent at every turn but the first."""
    for turn in range(1, len(right)):
        for agent in range(len(right[turn])):
            before, after = right[turn - 1], right[turn]
            yield Change(
                turn,
                before[agent],
                after[agent],
                others_majority(before, agent),
                others_majority(after, agent),
            )


def transition_rates(found: Sequence[Change]) -> dict[str, float]:
    """Shares of what changed into what; those without any case are left out.

    flow_rw and so on: of all answers, those right (r) before and wrong (w) after; they add up to 1
    revision_wr_r and so on: of the answers that were wrong beside a right majority, those that are
        right afterwards (Park et al., Table 1)
    influence_wr_r and so on: where the majority was wrong beside an own right answer, the share of
        majorities that are right afterwards (Park et al., Table 2)
    """
    if not found:
        return {}
    flows = Counter(f"flow_{LETTER[c.before]}{LETTER[c.after]}" for c in found)
    shares = {
        f"flow_{before}{after}": flows[f"flow_{before}{after}"] / len(found)
        for before in "rw"
        for after in "rw"
    }
    for before, after in ((False, True), (True, False)):
        change = f"{LETTER[before]}{LETTER[after]}"
        for beside in (False, True):
            own = [c for c in found if c.before is before and c.others_before is beside]
            if own:
                share = sum(c.after is after for c in own) / len(own)
                shares[f"revision_{change}_{LETTER[beside]}"] = share
            theirs = [c for c in found if c.others_before is before and c.before is beside]
            if theirs:
                share = sum(c.others_after is after for c in theirs) / len(theirs)
                shares[f"influence_{change}_{LETTER[beside]}"] = share
    return shares
