"""A verifier's verdicts on answers, and how well they separate right answers from wrong ones."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from torch import Tensor


def verdict_logits(values: Tensor, logprobs: Tensor, likelihood_coef: float) -> Tensor:
    """Logit of "this answer is right" before each of its tokens.

    The value head reads one state, which need not tell how likely the tokens before it were: that
    is computed from last-layer states that no later position attends to. So the sum of their
    log-probabilities may be added, times `likelihood_coef`; with 0 the head's values remain (Park
    et al., 2025).

    values: (B, R), of the value head before each token
    logprobs: (B, R), of each token
    returns: (B, R), with gradient where the inputs have one
    """
    if likelihood_coef == 0:
        return values
    return values + likelihood_coef * (logprobs.cumsum(1) - logprobs)


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


def auc_contributions(groups: Sequence[tuple[Sequence[float], Sequence[float]]]) -> list[float]:
    """What each group of answers contributes to the AUC over all; the mean of them is that AUC.

    The AUC plus the group's sum of structural components, so that the spread of what groups
    contribute is that of the AUC where answers of a group depend on each other (Obuchowski, 1997).

    groups: of each question, the scores of its right and of its wrong answers; of all questions
        together there are both
    """
    right = sorted(score for own, _ in groups for score in own)
    wrong = sorted(score for _, own in groups for score in own)
    area = auc(right, wrong)

    def below(ordered: Sequence[float], score: float) -> float:
        return (bisect_left(ordered, score) + bisect_right(ordered, score)) / (2 * len(ordered))

    return [
        area
        + len(groups)
        * (
            sum(below(wrong, score) - area for score in own_right) / len(right)
            + sum(1 - below(right, score) - area for score in own_wrong) / len(wrong)
        )
        for own_right, own_wrong in groups
    ]
