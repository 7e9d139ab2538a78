"""How well scores separate right answers from wrong ones."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence


def auc(right: Sequence[float], wrong: Sequence[float]) -> float:
    """Probability that a right answer scores above a wrong one, a tie counting one half.

    right, wrong: scores of the right and of the wrong answers, neither empty
    """
    if not right or not wrong:
        raise ValueError("an AUC needs right and wrong answers")
    ordered = sorted(wrong)
    # twice the number of pairs won, so that ties stay whole numbers
    twice = sum(bisect_left(ordered, score) + bisect_right(ordered, score) for score in right)
    return twice / (2 * len(right) * len(wrong))
