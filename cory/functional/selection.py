"""Training data of generation and critic agents, selected from debates (Subramaniam et al.).

Letters: P problems, M turns, N agents; both counted from 0.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

Answers = Sequence[Sequence[Hashable | None]]  # (M, N), of one debate; None: unreadable


@dataclass(frozen=True)
class Selected:
    """Numbers of the debates that one agent is trained on (Algorithm 1)."""

    generation: list[int]  # D^G: the agent's first answer equals the label
    corrected: list[int]  # D^C-: its last answer does, its first does not
    kept: list[int]  # D^C+: both do


def select(debates: Sequence[Answers], labels: Sequence[Hashable | None], agent: int) -> Selected:
    """The debates that one agent is trained on.

    debates: (P, M, N) answers
    labels: (P,) of each debate; None, where no answer could be read, selects nothing
    """
    selected = Selected([], [], [])
    for number, (answers, label) in enumerate(zip(debates, labels, strict=True)):
        first, last = answers[0][agent], answers[-1][agent]
        if label is None:
            continue
        if first == label:
            selected.generation.append(number)
        if last == label:
            (selected.kept if first == label else selected.corrected).append(number)
    return selected


def mix_critic_debates(
    corrected: Sequence[int], kept: Sequence[int], share: float, stream: np.random.Generator
) -> list[int]:
    """D^C = w D^C- + (1 - w) D^C+ (eq. 1), as large as these proportions allow.

    The part that is too large is downsampled at random.

    share: w, share of corrected debates, in [0, 1]
    stream: random numbers for the downsampling
    returns: numbers of debates in rising order
    """
    totals = [
        len(part) / weight for part, weight in ((corrected, share), (kept, 1 - share)) if weight > 0
    ]
    total = min(totals)
    # plus 1e-9, lest 2.9999 of a rounded product become 2
    counts = int(share * total + 1e-9), int((1 - share) * total + 1e-9)
    chosen: list[int] = []
    for part, count in zip((corrected, kept), counts, strict=True):
        chosen += stream.choice(np.asarray(part, dtype=int), count, replace=False).tolist()
    return sorted(chosen)
