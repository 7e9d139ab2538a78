"""Changes between right and wrong answers from one round of a debate to the next.

An episode is `right[t][a]`: whether the answer of agent a in round t is right.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Rightness = Sequence[Sequence[bool]]  # [round][agent]

LETTER = {True: "r", False: "w"}


class Change(NamedTuple):
    """The answers of one agent, and the majority of the others, in two successive rounds."""

    turn: int  # number of the later round, from 1
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


def answer_changes(right: Rightness) -> Iterator[Change]:
    """The change of every agent in every round but the first."""
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
    flows = Counter(f"flow_{LETTER[c.before]}{LETTER[c.after]}" for c in changes)
    shares = {
        f"flow_{before}{after}": flows[f"flow_{before}{after}"] / len(changes)
        for before in "rw"
        for after in "rw"
    }
    for before, after in ((False, True), (True, False)):
        change = f"{LETTER[before]}{LETTER[after]}"
        for beside in (False, True):
            own = [c for c in changes if c.before is before and c.others_before is beside]
            if own:
                share = sum(c.after is after for c in own) / len(own)
                shares[f"revision_{change}_{LETTER[beside]}"] = share
            theirs = [c for c in changes if c.others_before is before and c.before is beside]
            if theirs:
                share = sum(c.others_after is after for c in theirs) / len(theirs)
                shares[f"influence_{change}_{LETTER[beside]}"] = share
    return shares
