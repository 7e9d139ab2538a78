"""N-grams of tokens: repetition within texts, and copying from one text to another."""

from collections.abc import Iterable, Sequence


def ngrams(tokens: Sequence[int], n: int) -> list[tuple[int, ...]]:
    """All runs of n neighbouring tokens, in order; empty for a shorter text."""
    if n < 1:
        raise ValueError(f"n-grams of {n} tokens")
    return [tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1)]


def distinct_share(texts: Iterable[Sequence[int]], n: int) -> float:
    """Distinct n-grams over all n-grams of the texts (Li et al., 2016); 0 without any."""
    grams = [gram for tokens in texts for gram in ngrams(tokens, n)]
    return len(set(grams)) / len(grams) if grams else 0.0


def copied_share(tokens: Sequence[int], source: Sequence[int], n: int) -> float:
    """Share of a text's n-grams that occur in the source.

    A text of fewer than n tokens counts as one n-gram of its own length; for an empty one it is 0.
    """
    n = min(n, len(tokens))
    if n == 0:
        return 0.0
    own, others = ngrams(tokens, n), set(ngrams(source, n))
    return sum(gram in others for gram in own) / len(own)
