"""Diversity of the agents' answers to one problem (Subramaniam et al., 2025, 4.2, App. C)."""

import math
from collections.abc import Hashable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from cory.functional.logprobs import slabs

TENSORS_AT_ONCE = 3  # of a slab's size: float32 logits, log-probabilities, log-sum-exp


def agreeing(answers: Sequence[Hashable | None], vote: Hashable | None) -> list[int]:
    """Positions of the answers equal to the vote; None, an unreadable answer, equals nothing."""
    return [
        number for number, answer in enumerate(answers) if answer is not None and answer == vote
    ]


def consensus_diversity(answers: Sequence[Hashable | None], vote: Hashable | None) -> float:
    """Share of answers that differ from the vote (App. C.1): 0 where all are equal."""
    if not answers:
        raise ValueError("diversity needs at least one answer")
    return 1 - len(agreeing(answers, vote)) / len(answers)


def dissimilarity(embeddings: Tensor) -> float:
    """Mean of 1 - cosine similarity over pairs: 0 for parallel embeddings, 1 for orthogonal ones.

    embeddings: (N, D), N > 1
    """
    count = len(embeddings)
    if count < 2:
        raise ValueError(f"a pair needs two embeddings, got {count}")
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
    if count < 2:
        raise ValueError(f"a pair needs two distributions, got {count}")
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
