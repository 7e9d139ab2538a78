"""How different agents' answers to one problem are (Subramaniam et al., 2025, 4.2, App. C)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from cory.functional.logprobs import slabs

TENSORS_AT_ONCE = 3  # of a slab's size: logits in float32, their logarithms, and what is summed


def agreeing(answers: Sequence[Hashable | None], vote: Hashable | None) -> list[int]:
    """Which answers are the vote's; None, where none could be read, agrees with nobody."""
    return [
        number for number, answer in enumerate(answers) if answer is not None and answer == vote
    ]


def consensus_diversity(answers: Sequence[Hashable | None], vote: Hashable | None) -> float:
    """The share of answers that are not the vote's (App. C.1): 0 where all are equal."""
    if not answers:
        raise ValueError("diversity needs at least one answer")
    return 1 - len(agreeing(answers, vote)) / len(answers)


def dissimilarity(embeddings: Tensor) -> float:
    """1 - cosine similarity, mean over pairs: 0 for parallel embeddings, 1 for orthogonal ones.

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
    """KL(p || q) in nats, over the last dimension; what p rules out counts nothing.

    logp, logq: (..., V), logarithms of probabilities, -inf for 0
    """
    p, logp, logq = logp.double().exp(), logp.double(), logq.double()
    return torch.where(p > 0, p * (logp - logq), 0.0).sum(-1)


def kl_diversity(logp: Tensor) -> float:
    """KL divergence, mean over ordered pairs of distributions (App. C.2).

    logp: (N, V), N > 1
    """
    count = len(logp)
    if count < 2:
        raise ValueError(f"a pair needs two distributions, got {count}")
    # of a distribution to itself it is 0
    return sum(float(kl(own, logp).sum()) for own in logp) / (count * (count - 1))


def kl_between(logp: Tensor, logq: Tensor) -> float:
    """KL(p || q), mean over all pairs of one of the first and one of the second.

    logp: (N, V); logq: (M, V)
    """
    return sum(float(kl(own, logq).mean()) for own in logp) / len(logp)


def mean_distribution(logits: Tensor) -> Tensor:
    """The mean of distributions, as logarithms: a slab of positions at a time.

    logits: (n, V), n > 0
    returns: (V,) float32
    """
    count, vocabulary = logits.shape
    total = torch.full((vocabulary,), -torch.inf, device=logits.device)
    for rows in slabs(count, TENSORS_AT_ONCE * vocabulary):
        logp = F.log_softmax(logits[rows].float(), dim=-1)
        total = torch.logaddexp(total, logp.logsumexp(0))
    return total - math.log(count)
