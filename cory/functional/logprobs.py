"""Log-probabilities, entropy and KL divergence of generated tokens.

Letters: N tokens, H hidden width, V vocabulary. Everything is float32.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

LogitsOf = Callable[[Tensor], Tensor]  # (n, H) hidden states -> (n, V) logits

# bound on log-ratios: larger ones carry no information, and their exponentials soon overflow
MAX_LOG_RATIO = 20.0
SLAB_BYTES = 256 * 2**20  # memory for the float32 logits of a slab of tokens, and derived tensors
# tensors of a slab's size: logits and log-probabilities of both models, probabilities, a product
TENSORS_AT_ONCE = 6


def scaled(logits: Tensor, temperature: float) -> Tensor:
    """Float32 logits divided by a temperature; where it is 1, no second float32 tensor is made."""
    logits = logits.float()
    return logits if temperature == 1 else logits / temperature


def logprobs_of(logits: Tensor, tokens: Tensor) -> Tensor:
    """Log-probability of each token under its row of logits.

    logits: (N, V)
    tokens: (N,) int64
    returns: (N,) float32
    """
    if logits.shape[:-1] != tokens.shape:
        raise ValueError(f"logits {tuple(logits.shape)} do not fit tokens {tuple(tokens.shape)}")
    return -F.cross_entropy(logits.float(), tokens, reduction="none")


def full_kl(logits: Tensor, ref_logits: Tensor) -> Tensor:
    """Exact KL(policy || reference) over the vocabulary, in nats (Ma et al., eq. 2).

    For a KL in the loss; roll-outs record it by `token_statistics`, beside the entropy.

    logits, ref_logits: (N, V)
    returns: (N,) float32
    """
    if logits.shape != ref_logits.shape:
        raise ValueError(f"logits {tuple(logits.shape)} and reference {tuple(ref_logits.shape)}")
    logp = F.log_softmax(logits.float(), dim=-1)
    ref_logp = F.log_softmax(ref_logits.float(), dim=-1)
    return (logp.exp() * (logp - ref_logp)).sum(-1)


def sampled_kl(logprobs: Tensor, ref_logprobs: Tensor, estimator: str) -> Tensor:
    """Estimate of KL(policy || reference) from the sampled token alone (Schulman, 2020).

    k1 = log p - log q: unbiased, can be negative.  k2 = k1^2 / 2: biased, small variance.
    k3 = q/p - 1 + k1: unbiased, never negative.

    logprobs, ref_logprobs: any equal shape, log-probability of the sampled token
    """
    if logprobs.shape != ref_logprobs.shape:
        raise ValueError(f"logprobs {tuple(logprobs.shape)}, {tuple(ref_logprobs.shape)} differ")
    difference = logprobs - ref_logprobs
    if estimator == "k1":
        return difference
    if estimator == "k2":
        return 0.5 * difference**2
    if estimator == "k3":
        return torch.expm1((-difference).clamp(max=MAX_LOG_RATIO)) + difference
    raise ValueError(f"unknown KL estimator '{estimator}'; choose k1, k2 or k3")


class TokenStatistics(NamedTuple):
    """Per generated token, each (N,) float32; entropy and KL in nats."""

    logprobs: Tensor
    entropy: Tensor
    ref_logprobs: Tensor
    full_kl: Tensor


def token_statistics(
    hidden: Tensor,
    logits_of: LogitsOf,
    ref_hidden: Tensor,
    ref_logits_of: LogitsOf,
    tokens: Tensor,
    vocabulary: int,
    temperature: float = 1.0,
) -> TokenStatistics:
    """The statistics that a roll-out records, in slabs of tokens: no (N, V) tensor is kept.

    hidden, ref_hidden: (N, H) last hidden states of policy and reference, one row per token
    tokens: (N,) int64, the token that each row predicts
    temperature: the logits of both are divided by it
    """
    parts = []
    for rows in slabs(len(tokens), TENSORS_AT_ONCE * vocabulary):
        logits, ref_logits = logits_of(hidden[rows]), ref_logits_of(ref_hidden[rows])
        logp = F.log_softmax(scaled(logits, temperature), dim=-1)
        ref_logp = F.log_softmax(scaled(ref_logits, temperature), dim=-1)
        p, target = logp.exp(), tokens[rows][:, None]
        entropy = -(p * logp).sum(-1)
        parts.append(
            TokenStatistics(
                logp.gather(-1, target).squeeze(-1),
                entropy,
                ref_logp.gather(-1, target).squeeze(-1),
                -entropy - (p * ref_logp).sum(-1),
            )
        )
    return TokenStatistics(*(torch.cat(column) for column in zip(*parts, strict=True)))


def training_logprobs(
    hidden: Tensor,
    logits_of: LogitsOf,
    tokens: Tensor,
    vocabulary: int,
    temperature: float = 1.0,
    most: int = 0,
) -> Tensor:
    """Log-probabilities with gradient; of several slabs, backward computes the logits again.

    hidden: (N, H) last hidden states, with gradient
    tokens: (N,) int64, the token that each row predicts
    temperature: the logits are divided by it
    most: as of `slabs`
    returns: (N,) float32
    """

    def of_slab(h: Tensor, t: Tensor) -> Tensor:
        return logprobs_of(scaled(logits_of(h), temperature), t)

    pieces = list(slabs(len(tokens), vocabulary, most))
    if len(pieces) == 1:
        return of_slab(hidden, tokens)
    return torch.cat(
        [checkpoint(of_slab, hidden[rows], tokens[rows], use_reentrant=False) for rows in pieces]
    )


def training_kl(
    hidden: Tensor,
    logits_of: LogitsOf,
    ref_hidden: Tensor,
    ref_logits_of: LogitsOf,
    vocabulary: int,
    temperature: float = 1.0,
    most: int = 0,
) -> Tensor:
    """Exact KL(policy || reference) of each token, with its gradient in the policy.

    hidden: (N, H) last hidden states of the policy, with gradient
    ref_hidden: (N, H) of the reference, without
    temperature: the logits of both are divided by it
    most: as of `slabs`
    returns: (N,) float32
    """

    def of_slab(h: Tensor, ref_h: Tensor) -> Tensor:
        with torch.no_grad():
            ref_logits = scaled(ref_logits_of(ref_h), temperature)
        return full_kl(scaled(logits_of(h), temperature), ref_logits)

    pieces = list(slabs(len(hidden), TENSORS_AT_ONCE * vocabulary, most))
    if len(pieces) == 1:
        return of_slab(hidden, ref_hidden)
    return torch.cat(
        [
            checkpoint(of_slab, hidden[rows], ref_hidden[rows], use_reentrant=False)
            for rows in pieces
        ]
    )


def slabs(tokens: int, numbers: int, most: int = 0) -> Iterator[slice]:
    """Slices over the tokens of at most SLAB_BYTES each; at least one, even without tokens.

    numbers: float32 numbers per token
    most: tokens that some process has; there are as many slices as for these, the last ones empty
    """
    size = max(1, SLAB_BYTES // (4 * numbers))
    for start in range(0, max(tokens, most, 1), size):
        yield slice(min(start, tokens), min(start + size, tokens))
