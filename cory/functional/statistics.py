"""Means with standard errors, pass@k, and confidence intervals of means and shares."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

Z = 1.959963984540054  # standard deviations around the mean that hold 95 % of a normal law


def mean(values: Iterable[float]) -> float:
    """The mean of at least one value."""
    numbers = list(values)
    return sum(numbers) / len(numbers)


def standard_error(values: Sequence[float]) -> float | None:
    """Standard error of the mean; None below two values."""
    if len(values) < 2:
        return None
    return float(np.std(values, ddof=1)) / math.sqrt(len(values))


def binomial_se(share: float, count: int) -> float:
    """Standard error of a share of `count` trials."""
    return math.sqrt(share * (1 - share) / count)


def pass_at_k(right: int, of: int, k: int) -> float:
    """Probability that k of the tries, drawn without replacement, include a right one.

    1 - C(n - c, k) / C(n, k) (Chen et al., 2021, eq. 1): an unbiased estimate, for every n, of the
    probability that k new tries include a right one.

    right, of: c right tries out of n
    """
    if not (0 <= right <= of and 1 <= k <= of):
        raise ValueError(f"pass@{k} of {right} right tries out of {of}")
    return 1 - math.comb(of - right, k) / math.comb(of, k)


def any_of_first(tries: Sequence[bool], k: int) -> bool:
    """Whether one of the first k tries is right, as counted by Ma et al. (2024, 4.2)."""
    if not 1 <= k <= len(tries):
        raise ValueError(f"the first {k} of {len(tries)} tries")
    return any(tries[:k])


def interval(values: Sequence[float], responses: int) -> tuple[float, float]:
    """95 % confidence interval of the mean over all prompts, from a sample of prompts.

    Wilson's score interval (Wilson, 1927) with the effective sample size of surveys (Korn and
    Graubard, 1998), p (1 - p) / variance of the values, at most the number of responses. With
    values of 0 and 1 alone it is Wilson's own interval. Prompts are independent, responses to one
    prompt are not. Unlike a bootstrap over prompts it needs no random numbers, and it does not
    shrink to a point where every prompt failed.

    values: in [0, 1], one per prompt
    responses: number of responses to all prompts together, at least one per prompt
    """
    count = len(values)
    if not count or responses < count or not all(0 <= value <= 1 for value in values):
        raise ValueError(f"{count} values from {responses} responses must lie in [0, 1]")
    centre = sum(values) / count
    variance = sum((value - centre) ** 2 for value in values) / count
    effective = float(count)
    if 0 < centre < 1:
        most = centre * (1 - centre) * count
        # prompts with equal values are worth no more than all responses together
        effective = responses if variance * responses <= most else most / variance
    return wilson(centre, effective)


def wilson(share: float, of: float) -> tuple[float, float]:
    """Wilson's 95 % score interval (Wilson, 1927) of a share of `of` independent outcomes.

    The probabilities p for which the share is at most Z standard deviations
    sqrt(p (1 - p) / of) away from p.
    """
    if not (0 <= share <= 1 and of > 0):
        raise ValueError(f"a share of {share} of {of} outcomes")
    weight = Z**2 / of
    centre = (share + weight / 2) / (1 + weight)
    half = Z / (1 + weight) * math.sqrt(share * (1 - share) / of + Z**2 / (4 * of**2))
    # the exact bound where nothing, or everything, is right: rounding would miss it
    low = 0.0 if share == 0 else max(0.0, centre - half)
    high = 1.0 if share == 1 else min(1.0, centre + half)
    return low, high


def contributions(sums: Sequence[float], counts: Sequence[float]) -> list[float]:
    """What each prompt contributes to sum(sums) / sum(counts); the mean of them is that ratio.

    The ratio itself plus the prompt's residual over the mean count: their spread is that of the
    ratio (linearisation; Cochran, 1977, section 6.3). Where every count is the same, they are the
    prompts' own means.

    sums, counts: of each prompt, as the games won and the games that count
    """
    whole = sum(counts)
    if not whole:
        raise ValueError("nothing was counted")
    ratio, each = sum(sums) / whole, whole / len(counts)
    return [ratio + (own - ratio * count) / each for own, count in zip(sums, counts, strict=True)]
