"""Majority votes on answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np

TIES = ("expected", "random", "lexicographic")


def winners(answers: Sequence[Hashable | None]) -> list[Hashable | None]:
    """The answers with the most votes, in the order in which they first came.

    answers: None where no answer could be read; all of these are one class, which loses ties and
        is right nowhere
    """
    if not answers:
        raise ValueError("a vote needs at least one answer")
    counts = Counter(answers)
    most = max(counts.values())
    tied = [answer for answer, votes in counts.items() if votes == most]
    return [answer for answer in tied if answer is not None] or [None]


def elected_answer(
    answers: Sequence[Hashable | None], ties: str, stream: np.random.Generator
) -> Hashable | None:
    """The one answer that a vote comes to; None where no answer could be read.

    ties: lexicographic: of equally many votes the one whose text comes first | else: one of them by
        `stream`
    """
    tied = winners(answers)
    return min(tied, key=str) if ties == "lexicographic" else tied[int(stream.integers(len(tied)))]


def vote_score(
    answers: Sequence[Hashable | None],
    right: Hashable,
    ties: str,
    stream: np.random.Generator | None = None,
) -> float:
    """How right the majority is: 1, 0, or, where right and wrong answers tie, what `ties` says.

    ties: expected: 1 over the number of tied answers (Park et al., 4.1) | random: one of them by
        `stream` | lexicographic: the one whose text comes first
    """
    if ties not in TIES:
        raise ValueError(f"unknown rule '{ties}'; choose one of {', '.join(TIES)}")
    tied = winners(answers)
    if ties == "expected":
        return float(right in tied) / len(tied)
    if stream is None:
        if ties == "random":
            raise ValueError("ties=random needs a stream")
        stream = np.random.default_rng(0)  # plays no part
    return float(elected_answer(answers, ties, stream) == right)


def agreement(answers: Sequence[Hashable | None]) -> float:
    """The largest share of equal answers; those that could not be read agree with nobody."""
    counts = Counter(answer for answer in answers if answer is not None)
    return max(counts.values(), default=0) / len(answers)
