"""Tokens: padding, masked statistics, n-grams; log-probabilities, entropy and KL divergence.

Letters: B turns, N tokens, H hidden width, V vocabulary. Everything is float32. A mask is True on
values that count.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.checkpoint import checkpoint

LogitsOf = Callable[[Tensor], Tensor]  # (n, H) hidden states -> (n, V) logits
Gram = TypeVar("Gram", int, str)

# bound on log-ratios: larger ones carry no information, and their exponentials soon overflow
MAX_LOG_RATIO = 20.0
SLAB_BYTES = 256 * 2**20  # memory for the float32 logits of a slab of tokens, and derived tensors
# tensors of a slab's size: logits and log-probabilities of both models, probabilities, a product
TENSORS_AT_ONCE = 6

QUANTILE = 0.99  # where not all is in float32 a few tokens are far off, and most not at all


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Mean (scalar) of `x` where `mask` is True; 0 where it is True nowhere.

    x, mask: of one shape, float and bool
    """
    return torch.where(mask, x, 0.0).sum() / mask.sum().clamp(min=1)


def masked_var(x: Tensor, mask: Tensor) -> Tensor:
    """Unbiased variance (scalar) of `x` where `mask` is True, at least twice."""
    squares = torch.where(mask, (x - masked_mean(x, mask)) ** 2, 0.0)
    return squares.sum() / (mask.sum() - 1)


def whiten(x: Tensor, mask: Tensor, epsilon: float = 1e-8) -> Tensor:
    """`x` shifted to mean 0 and scaled to variance 1 over the True entries; 0 elsewhere.

    One value alone is its own mean: it becomes 0.
    """
    centred = x - masked_mean(x, mask)
    if mask.sum() < 2:
        return torch.zeros_like(x)
    return torch.where(mask, centred * torch.rsqrt(masked_var(x, mask) + epsilon), 0.0)


def tail_of(values: Tensor) -> float:
    """The 99 % quantile of at least one number.

    values: (N,) float; torch takes 2^24, of more every second one
    """
    return float(values[:: 1 + len(values) // 2**24].quantile(QUANTILE))


def padded(
    rows: Sequence[Sequence[int]], pad_id: int, side: str = "right"
) -> tuple[Tensor, Tensor]:
    """Rows of token ids padded to the longest on one side: ids (B, L) int64, mask (B, L) bool."""
    ids = [torch.tensor(row, dtype=torch.int64) for row in rows]
    mask = [torch.ones_like(row, dtype=torch.bool) for row in ids]
    return pad_sequence(ids, True, pad_id, side), pad_sequence(mask, True, False, side)


def pad_turns(
    contexts: Sequence[Sequence[int]], responses: Sequence[Sequence[int]], pad_id: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Contexts and responses side by side, each context ending where its response begins.

    contexts: B lists of token ids, none empty
    responses: B lists of token ids; an empty one is a row whose mask is all False
    returns: input_ids (B, L) int64, attention_mask (B, L) bool, response_mask (B, R) bool, R > 0
    """
    context, context_mask = padded(contexts, pad_id, "left")
    width = max(1, *map(len, responses))  # a forward pass needs a column even if all are empty
    filled = [[*row, *[pad_id] * (width - len(row))] for row in responses]
    response = torch.tensor(filled, dtype=torch.int64)
    response_mask = torch.arange(width) < torch.tensor([[len(row)] for row in responses])
    return (
        torch.cat([context, response], dim=1),
        torch.cat([context_mask, response_mask], dim=1),
        response_mask,
    )


def aligned_right(
    input_ids: Tensor, attention_mask: Tensor, response_mask: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of `pad_turns` with all padding on the left, as little as the longest row leaves.

    Side by side, contexts and responses are padded to the longest of each, which together may be
    longer than any row.

    input_ids, attention_mask: (B, L)
    response_mask: (B, R) bool
    returns: the same, (B, l), (B, l) and (B, r), r < l; True entries of the masks keep their order
    """
    length, width = input_ids.shape[1], response_mask.shape[1]
    ended = attention_mask.flip(1).int().argmax(1, keepdim=True)  # columns of padding on the right
    columns = (torch.arange(length, device=input_ids.device) - ended) % length
    ids, attended = input_ids.gather(1, columns), attention_mask.gather(1, columns)
    places = (torch.arange(width, device=input_ids.device) - ended) % width
    longest = max(2, int(attention_mask.sum(1).max()))  # 2: all rows may be absent turns
    responses = response_mask.gather(1, places)[:, 1 - longest :]  # no row begins with its response
    return ids[:, -longest:], attended[:, -longest:], responses


def scaled(logits: Tensor, temperature: float) -> Tensor:
    """Float32 logits divided by a temperature; where it is 1, no second float32 tensor is made."""
    logits = logits.float()
    return logits if temperature == 1 else logits / temperature


def logprobs_of(logits: Tensor, tokens: Tensor) -> Tensor:
    """Log-probability (N,) float32 of each token (N,) under its row of logits (N, V)."""
    return -F.cross_entropy(logits.float(), tokens, reduction="none")


def full_kl(logits: Tensor, ref_logits: Tensor) -> Tensor:
    """Exact KL(policy || reference) over the vocabulary, in nats (Ma et al., eq. 2).

    logits, ref_logits: (N, V)
    returns: (N,) float32
    """
    logp = F.log_softmax(logits.float(), dim=-1)
    ref_logp = F.log_softmax(ref_logits.float(), dim=-1)
    return (logp.exp() * (logp - ref_logp)).sum(-1)


def sampled_kl(logprobs: Tensor, ref_logprobs: Tensor, estimator: str) -> Tensor:
    """Estimate of KL(policy || reference) from the sampled token alone (Schulman, 2020).

    k1 = log p - log q: unbiased, can be negative.  k2 = k1^2 / 2: biased, small variance.
    k3 = q/p - 1 + k1: unbiased, never negative.

    logprobs, ref_logprobs: any equal shape, log-probability of the sampled token
    """
    difference = logprobs - ref_logprobs
    if estimator == "k1":
        return difference
    if estimator == "k2":
        return 0.5 * difference**2
    return torch.expm1((-difference).clamp(max=MAX_LOG_RATIO)) + difference


def corrected_kl(logprobs: Tensor, ref_logprobs: Tensor, old_logprobs: Tensor) -> Tensor:
    """k3 times the probability ratio to the policy that sampled the token.

    Over tokens of that policy it estimates KL(policy || reference), and so does its gradient: k3
    alone has that of the other policy's expectation, which leaves out how the policy moves.

    logprobs: any shape, with gradient
    ref_logprobs, old_logprobs: same shape, under reference and sampling policy
    """
    ratio = (logprobs - old_logprobs).clamp(max=MAX_LOG_RATIO).exp()
    return ratio * sampled_kl(logprobs, ref_logprobs, "k3")


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
    entropy: bool = False,
) -> Tensor:
    """Log-probabilities with gradient; of several slabs, backward computes the logits again.

    hidden: (N, H) last hidden states, with gradient
    tokens: (N,) int64, the token that each row predicts
    temperature: the logits are divided by it
    most: as of `slabs`
    returns: (N,) float32; with `entropy` (N, 2): beside it the entropy over the vocabulary, nats
    """

    def of_slab(h: Tensor, t: Tensor) -> Tensor:
        logits = scaled(logits_of(h), temperature)
        if not entropy:
            return logprobs_of(logits, t)
        logp = F.log_softmax(logits, dim=-1)
        chosen = logp.gather(-1, t[:, None]).squeeze(-1)
        return torch.stack([chosen, -(logp.exp() * logp).sum(-1)], dim=1)

    numbers = TENSORS_AT_ONCE * vocabulary if entropy else vocabulary
    return _by_slabs(of_slab, hidden, tokens, slabs(len(tokens), numbers, most))


def training_kl(
    hidden: Tensor,
    logits_of: LogitsOf,
    ref_hidden: Tensor,
    ref_logits_of: LogitsOf,
    vocabulary: int,
    temperature: float = 1.0,
    most: int = 0,
) -> Tensor:
    """Exact KL(policy || reference) of each token, with its gradient in the policy: (N,) float32.

    hidden: (N, H) last hidden states of the policy, with gradient
    ref_hidden: (N, H) of the reference, without
    temperature, most: as of `training_logprobs`, for the logits of both
    """

    def of_slab(h: Tensor, ref_h: Tensor) -> Tensor:
        with torch.no_grad():
            ref_logits = scaled(ref_logits_of(ref_h), temperature)
        return full_kl(scaled(logits_of(h), temperature), ref_logits)

    rows = slabs(len(hidden), TENSORS_AT_ONCE * vocabulary, most)
    return _by_slabs(of_slab, hidden, ref_hidden, rows)


def _by_slabs(
    of_slab: Callable[[Tensor, Tensor], Tensor],
    first: Tensor,
    second: Tensor,
    rows: Iterable[slice],
) -> Tensor:
    """What a function makes of slabs of two tensors; of several, backward calls it again."""
    pieces = list(rows)
    if len(pieces) == 1:
        return of_slab(first, second)
    return torch.cat(
        [checkpoint(of_slab, first[own], second[own], use_reentrant=False) for own in pieces]
    )


def slabs(tokens: int, numbers: int, most: int = 0) -> Iterator[slice]:
    """Slices over the tokens of at most SLAB_BYTES each; at least one, even without tokens.

    numbers: float32 numbers per token
    most: tokens that some process has; there are as many slices as for these, the last ones empty
    """
    size = max(1, SLAB_BYTES // (4 * numbers))
    for start in range(0, max(tokens, most, 1), size):
        yield slice(min(start, tokens), min(start + size, tokens))


def ngrams(tokens: Sequence[Gram], n: int) -> list[tuple[Gram, ...]]:
    """All runs of n neighbouring tokens, in order; empty for a shorter text."""
    return [tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1)]


def distinct_share(texts: Iterable[Sequence[int]], n: int) -> float:
    """Distinct n-grams over all n-grams of the texts (Li et al., 2016); 0 without any."""
    grams = [gram for tokens in texts for gram in ngrams(tokens, n)]
    return len(set(grams)) / len(grams) if grams else 0.0


def copied_share(own: Sequence[str], shown: Iterable[Sequence[str]], n: int) -> float | None:
    """ROUGE-n precision (Lin, 2004): the share of a text's n-grams that shown texts have, too.

    An n-gram counts at most as often as it is shown. None where the text has none.

    own, shown: words of the text, and of each shown one
    """
    grams = Counter(ngrams(own, n))
    others = Counter(gram for words in shown for gram in ngrams(words, n))
    return (grams & others).total() / grams.total() if grams else None
