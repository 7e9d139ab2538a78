"""What agents learn of their debates: data of generation and critic agents (Subramaniam et al.).

Letters: P problems, M turns, N agents; both counted from 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

Answers = Sequence[Sequence[Hashable | None]]  # (M, N), of one debate; None: none could be read


@dataclass(frozen=True)
class Selected:
    """Which debates an agent learns from, by number (Algorithm 1)."""

    generation: list[int]  # D^G: its first answer is the label
    corrected: list[int]  # D^C-: its last answer is, its first is not
    kept: list[int]  # D^C+: both are


def select(debates: Sequence[Answers], labels: Sequence[Hashable | None], agent: int) -> Selected:
    """What one agent learns from.

    debates: (P, M, N)
    labels: of each debate; None, where nobody's answer could be read, is learnt from by nobody
    """
    found = Selected([], [], [])
    for number, (answers, label) in enumerate(zip(debates, labels, strict=True)):
        first, last = answers[0][agent], answers[-1][agent]
        if label is None:
            continue
        if first == label:
            found.generation.append(number)
        if last == label:
            (found.kept if first == label else found.corrected).append(number)
    return found


def mix_critic_debates(
    corrected: Sequence[int], kept: Sequence[int], share: float, stream: np.random.Generator
) -> list[int]:
    """D^C = w D^C- + (1 - w) D^C+ (eq. 1): as many of both as there are in these proportions.

    share: w, of corrected ones, in [0, 1]
    returns: numbers in rising order; of the kind that there is too much of, a random part
    """
    totals = [
        len(part) / weight for part, weight in ((corrected, share), (kept, 1 - share)) if weight > 0
    ]
    total = min(totals)
    # without the rounding of floats: 0.3 * 10 is no 2.9999
    counts = int(share * total + 1e-9), int((1 - share) * total + 1e-9)
    chosen: list[int] = []
    for part, count in zip((corrected, kept), counts, strict=True):
        chosen += stream.choice(np.asarray(part, dtype=int), count, replace=False).tolist()
    return sorted(chosen)
