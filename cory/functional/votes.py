"""Answers of several agents: majority votes, diversity, and what MAFT learns from debates.

Letters: P problems, M turns, N agents or answers; V vocabulary.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from cory.functional.logprobs import slabs

Answers = Sequence[Sequence[Hashable | None]]  # (M, N), of one debate; None: unreadable
TENSORS_AT_ONCE = 3  # of a slab's size: float32 logits, log-probabilities, log-sum-exp


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

    def winners(self, answers: Sequence[Hashable | None]) -> list[Hashable | None]:
        """Answers with the most votes, in the order of their first vote; [None] if none wins."""
        counts = Counter(answers)
        if self.unreadable == "dropped":
            del counts[None]  # no error where there is none
        most = max(counts.values(), default=0)
        tied = [answer for answer, votes in counts.items() if votes == most]
        return [answer for answer in tied if answer is not None] or [None]

    def elected(
        self, answers: Sequence[Hashable | None], stream: np.random.Generator | None
    ) -> Hashable | None:
        """The answer that the vote elects; None where no answer wins."""
        tied = self.winners(answers)
        if self.ties == "lexicographic":
            return min(tied, key=str)
        assert stream is not None
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
        return float(self.elected(answers, stream) == right)


def agreement(answers: Sequence[Hashable | None]) -> float:
    """The largest share of equal answers; unreadable ones are equal to none."""
    counts = Counter(answer for answer in answers if answer is not None)
    return max(counts.values(), default=0) / len(answers)


def agreeing(answers: Sequence[Hashable | None], vote: Hashable | None) -> list[int]:
    """Positions of the answers equal to the vote; None, an unreadable answer, equals nothing."""
    return [n for n, answer in enumerate(answers) if answer is not None and answer == vote]


def consensus_diversity(answers: Sequence[Hashable | None], vote: Hashable | None) -> float:
    """Share of answers that differ from the vote (App. C.1): 0 where all are equal."""
    return 1 - len(agreeing(answers, vote)) / len(answers)


def dissimilarity(embeddings: Tensor) -> float:
    """Mean of 1 - cosine similarity over pairs: 0 for parallel embeddings, 1 for orthogonal ones.

    embeddings: (N, D), N > 1
    """
    count = len(embeddings)
    directions = F.normalize(embeddings.double(), dim=-1)
    first, second = torch.triu_indices(count, count, offset=1).unbind()
    cosines = (directions[first] * directions[second]).sum(-1)
    return float((1 - cosines).clamp(min=0).mean())  # rounding may leave a cosine above 1


def kl(logp: Tensor, logq: Tensor) -> Tensor:
    """KL(p || q) in nats, over the last dimension; tokens with p = 0 add nothing.

    logp, logq: (..., V) log-probabilities, -inf for 0
    returns: (...)
    """
    p, logp, logq = logp.double().exp(), logp.double(), logq.double()
    return torch.where(p > 0, p * (logp - logq), 0.0).sum(-1)


def kl_diversity(logp: Tensor) -> float:
    """Mean KL divergence over ordered pairs of distributions, in nats (App. C.2).

    logp: (N, V) log-probabilities, N > 1
    """
    count = len(logp)
    # the pairs of a distribution with itself add 0
    return sum(float(kl(own, logp).sum()) for own in logp) / (count * (count - 1))


def kl_between(logp: Tensor, logq: Tensor) -> float:
    """Mean of KL(p || q) over all p of the first and all q of the second set, in nats.

    logp: (N, V); logq: (M, V) log-probabilities
    """
    return sum(float(kl(own, logq).mean()) for own in logp) / len(logp)


def mean_distribution(logits: Tensor) -> Tensor:
    """Log of the mean of the distributions at n positions, computed in slabs of positions.

    logits: (n, V), n > 0
    returns: (V,) float32 log-probabilities
    """
    count, vocabulary = logits.shape
    total = torch.full((vocabulary,), -torch.inf, device=logits.device)
    for rows in slabs(count, TENSORS_AT_ONCE * vocabulary):
        logp = F.log_softmax(logits[rows].float(), dim=-1)
        total = torch.logaddexp(total, logp.logsumexp(0))
    return total - math.log(count)


@dataclass(frozen=True)
class Selected:
    """Numbers of the debates that one agent is trained on (Algorithm 1)."""

    generation: list[int]  # D^G: the agent's first answer equals the label
    corrected: list[int]  # D^C-: its last answer does, its first does not
    kept: list[int]  # D^C+: both do


def select(debates: Sequence[Answers], labels: Sequence[Hashable | None], agent: int) -> Selected:
    """The debates that one agent is trained on, by their answers (P, M, N) and labels (P,).

    labels: None, where no answer could be read, selects nothing
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


def above_mean(scores: Sequence[Sequence[float]]) -> list[list[Hashable]]:
    """Which answers (M, N) score above the mean of all to their problem; of equal ones none."""
    every = [score for of_round in scores for score in of_round]
    least = math.fsum(every) / len(every) if min(every) < max(every) else math.inf
    return [[score > least for score in of_round] for of_round in scores]


def mix_critic_debates(
    corrected: Sequence[int], kept: Sequence[int], share: float, stream: np.random.Generator
) -> list[int]:
    """D^C = w D^C- + (1 - w) D^C+ (eq. 1), as large as these proportions allow.

    The part that is too large is downsampled at random.

    share: w, share of corrected debates, in [0, 1]
    stream: random numbers for the downsampling
    returns: numbers of debates in rising order
    """
    total = min(len(part) / w for part, w in ((corrected, share), (kept, 1 - share)) if w > 0)
    # plus 1e-9, lest 2.9999 of a rounded product become 2
    counts = int(share * total + 1e-9), int((1 - share) * total + 1e-9)
    chosen: list[int] = []
    for part, count in zip((corrected, kept), counts, strict=True):
        chosen += stream.choice(np.asarray(part, dtype=int), count, replace=False).tolist()
    return sorted(chosen)
