"""Majority votes on answers."""

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np

TIES = ("expected", "random", "lexicographic")


def winners(answers: Sequence[Hashable | None]) -> list[Hashable | None]:
    """The answers with the most votes, in the order of their first vote.

    answers: None for an unreadable answer; these form one class, which loses every tie
    Raises ValueError without any answer.
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
    """The answer that a majority vote elects; None where no answer could be read.

    ties: lexicographic: the tied answer whose text comes first | else: one at random by `stream`
    """
    tied = winners(answers)
    return min(tied, key=str) if ties == "lexicographic" else tied[int(stream.integers(len(tied)))]


def vote_score(
    answers: Sequence[Hashable | None],
    right: Hashable,
    ties: str,
    stream: np.random.Generator | None = None,
) -> float:
    """Score of a majority vote: 1 if it is right, 0 if not, or in between for an expected tie.

    ties: expected: 1 over the number of tied answers if one is right (Park et al., 4.1) |
        random: one of the tied answers by `stream` | lexicographic: the one whose text comes first
    """
    if ties not in TIES:
        raise ValueError(f"unknown rule '{ties}'; choose one of {', '.join(TIES)}")
    tied = winners(answers)
    if ties == "expected":
        return float(right in tied) / len(tied)
    if stream is None:
        if ties == "random":
            raise ValueError("ties=random needs a stream")
        stream = np.random.default_rng(0)  # not used by lexicographic ties
    return float(elected_answer(answers, ties, stream) == right)


def agreement(answers: Sequence[Hashable | None]) -> float:
    """The largest share of equal answers; unreadable ones are equal to none."""
    counts = Counter(answer for answer in answers if answer is not None)
    return max(counts.values(), default=0) / len(answers)
