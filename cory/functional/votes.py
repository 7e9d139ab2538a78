"""Majority votes on answers."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

TIES = ("expected", "random", "lexicographic")
UNREADABLE = ("dropped", "counted")


@dataclass(frozen=True)
class VoteRule:
    """How a majority vote treats ties and unreadable answers.

    ties: expected: a score counts in part, 1 over the number of tied answers if one of them is
        right (Park et al., 4.1); an elected answer is drawn | random: one of the tied answers is
        drawn (Subramaniam et al., 3.2) | lexicographic: the one whose text comes first
    unreadable: dropped: no votes, as in the code of Subramaniam et al. | counted: votes of one
        class, which is never right and loses ties, as in the code of Park et al.
    """

    ties: str
    unreadable: str

    def __post_init__(self) -> None:
        for value, choices in ((self.ties, TIES), (self.unreadable, UNREADABLE)):
            if value not in choices:
                raise ValueError(f"unknown rule '{value}'; choose one of {', '.join(choices)}")

    def winners(self, answers: Sequence[Hashable | None]) -> list[Hashable | None]:
        """The answers with the most votes, in the order of their first vote.

        answers: None for an unreadable answer
        returns: [None] where no answer wins
        Raises ValueError without any answer.
        """
        if not answers:
            raise ValueError("a vote needs at least one answer")
        counts = Counter(answers)
        if self.unreadable == "dropped":
            del counts[None]  # no error where there is none
        most = max(counts.values(), default=0)
        tied = [answer for answer, votes in counts.items() if votes == most]
        return [answer for answer in tied if answer is not None] or [None]

    def elected(
        self, answers: Sequence[Hashable | None], stream: np.random.Generator
    ) -> Hashable | None:
        """The answer that the vote elects; None where no answer wins."""
        tied = self.winners(answers)
        if self.ties == "lexicographic":
            return min(tied, key=str)
        return tied[int(stream.integers(len(tied)))]

    def score(
        self,
        answers: Sequence[Hashable | None],
        right: Hashable,
        stream: np.random.Generator | None = None,
    ) -> float:
        """Score of the vote: 1 if it is right, 0 if not, or in between for an expected tie.

        stream: draws random ties; other rules do without
        """
        if self.ties == "expected":
            tied = self.winners(answers)
            return float(right in tied) / len(tied)
        if stream is None:
            if self.ties == "random":
                raise ValueError("ties=random needs a stream")
            stream = np.random.default_rng(0)  # not used by lexicographic ties
        return float(self.elected(answers, stream) == right)


def agreement(answers: Sequence[Hashable | None]) -> float:
    """The largest share of equal answers; unreadable ones are equal to none."""
    counts = Counter(answer for answer in answers if answer is not None)
    return max(counts.values(), default=0) / len(answers)
