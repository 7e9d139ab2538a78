"""Votes, diversity, what debates teach; pass@k, intervals, verdicts and their AUC, by hand."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cory.functional import votes
from cory.functional.losses import verdict_logits
from cory.functional.statistics import (
    auc,
    contributions,
    mean,
    mean_interval,
    paired_interval,
    pairs_needed,
    pass_at_k,
    share_interval,
)
from cory.functional.votes import (
    VoteRule,
    above_mean,
    agreement,
    consensus_diversity,
    dissimilarity,
    kl,
    kl_between,
    kl_diversity,
    mean_distribution,
    mix_critic_debates,
    select,
)
from tests.support.close import assert_close

DROPPED, COUNTED = VoteRule("expected", "dropped"), VoteRule("expected", "counted")


@pytest.mark.parametrize("rule", [DROPPED, COUNTED])
@pytest.mark.parametrize(
    ("answers", "score"),
    [
        ([7, 7, 3], 1.0),
        ([3, 3, 7], 0.0),
        ([7, 3], 0.5),
        ([7, 3, 5], 1 / 3),
        ([7, 7, 3, 3, 5], 0.5),  # the single vote is out
        ([None, 7], 1.0),  # unreadable answers lose ties under both rules
        ([None, 7, 3], 0.5),
        ([None, None], 0.0),
    ],
)
def test_ties_are_scored_as_expectation(rule: VoteRule, answers, score: float) -> None:
    assert rule.score(answers, 7) == pytest.approx(score)


@pytest.mark.parametrize(
    ("answers", "dropped", "counted"),
    [
        ([None, None, 7], [7], [None]),
        ([7, None, 3, 3, None, None], [3], [None]),
        ([None, None, 3, 3], [3], [3]),
        ([None, None], [None], [None]),  # nobody's answer could be read
    ],
)
def test_unreadable_answers_are_dropped_or_counted(answers, dropped, counted) -> None:
    assert DROPPED.winners(answers) == dropped
    assert COUNTED.winners(answers) == counted
    for rule, expected in ((DROPPED, dropped), (COUNTED, counted)):
        assert rule.score(answers, 7) == pytest.approx((7 in expected) / len(expected))
        elected = VoteRule("lexicographic", rule.unreadable).elected(
            answers, np.random.default_rng(0)
        )
        assert elected == min(expected, key=str)


def test_random_ties_pick_one_winner_each_as_often_as_the_others() -> None:
    stream = np.random.default_rng(0)
    rule = VoteRule("random", "counted")
    scores = Counter(rule.score([7, 3, 5, 5, 7], 7, stream) for _ in range(2000))
    assert set(scores) == {0.0, 1.0}
    assert scores[1.0] / 2000 == pytest.approx(0.5, abs=0.05)
    assert rule.score([7, 7, 3], 7, stream) == 1.0


def test_lexicographic_ties_take_the_first_text() -> None:
    rule = VoteRule("lexicographic", "counted")
    assert rule.score(["b", "a"], "a") == 1.0
    assert rule.score(["b", "a"], "b") == 0.0
    assert rule.score([10, 9], 10) == 1.0  # '10' stands before '9'


def test_winners_keep_the_order_in_which_they_came() -> None:
    assert COUNTED.winners([3, 7, 7, 3, 1]) == [3, 7]


def test_agreement_does_not_count_what_cannot_be_read() -> None:
    assert agreement([7, 7, 3]) == pytest.approx(2 / 3)
    assert agreement([None, None, 3]) == pytest.approx(1 / 3)
    assert agreement([None, None]) == 0.0


def test_answers_above_the_mean_of_their_problem() -> None:
    assert above_mean([[0.2, 0.9], [0.4, 0.5]]) == [[False, True], [False, False]]  # of 0.5
    assert above_mean([[1.0, 0.0], [0.0, 1.0]]) == [[True, False], [False, True]]
    assert above_mean([[0.7] * 3]) == [[False] * 3]


P, Q = [0.5, 0.5, 0.0], [0.25, 0.5, 0.25]
P_TO_Q = 0.5 * math.log(2)  # .5 log(.5 / .25), 0, nothing of what P rules out


def logs(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows).log()


@pytest.mark.parametrize(
    ("answers", "vote", "expected"),
    [
        ([7, 7, 7], 7, 0),
        ([7, 8, 9], 7, 1 - 1 / 3),
        ([7, 7, None], 7, 1 / 3),
        ([None, None, 7], None, 1),  # what could not be read agrees with nobody
        ([None, None], None, 1),
    ],
)
def test_consensus(answers: list[int | None], vote: int | None, expected: float) -> None:
    assert consensus_diversity(answers, vote) == pytest.approx(expected)


def test_dissimilarity_by_hand() -> None:
    e, f = [3.0, 0.0], [0.0, 0.5]
    assert dissimilarity(torch.tensor([e, [6.0, 0.0]])) == pytest.approx(0, abs=1e-12)
    assert dissimilarity(torch.tensor([e, f])) == pytest.approx(1)
    assert dissimilarity(torch.tensor([e, [-1.0, 0.0]])) == pytest.approx(2)
    # pairs: parallel, orthogonal, orthogonal
    assert dissimilarity(torch.tensor([e, e, f])) == pytest.approx(2 / 3)
    assert dissimilarity(torch.tensor([[1.0, 5.0]] * 2)) == 0  # rounding leaves this cosine above 1


def test_kl_by_hand() -> None:
    assert_close(kl(logs(P), logs(Q)), [P_TO_Q])
    assert_close(kl(logs(Q), logs(Q)), [0.0])
    assert kl(logs(Q), logs(P)).item() == math.inf  # Q gives what P rules out


def test_kl_diversity_is_the_mean_over_ordered_pairs() -> None:
    r = [0.25, 0.25, 0.5]
    q_to_r = 0.5 * math.log(2) - 0.25 * math.log(2)
    r_to_q = -0.25 * math.log(2) + 0.5 * math.log(2)
    assert kl_diversity(logs(Q, r)) == pytest.approx((q_to_r + r_to_q) / 2)
    # of the six pairs of Q, r, r two are equal
    assert kl_diversity(logs(Q, r, r)) == pytest.approx((2 * q_to_r + 2 * r_to_q) / 6)
    assert kl_diversity(logs(Q, Q, Q)) == 0


def test_kl_between_takes_every_pair_in_one_direction() -> None:
    assert kl_between(logs(P, Q), logs(Q)) == pytest.approx(P_TO_Q / 2)
    assert kl_between(logs(P), logs(Q, Q, P)) == pytest.approx(2 * P_TO_Q / 3)


def test_the_mean_of_distributions_in_any_slabs(monkeypatch) -> None:
    logits = torch.randn(7, 5, generator=torch.Generator().manual_seed(0)) * 40
    expected = F.softmax(logits.double(), -1).mean(0).log()
    assert_close(mean_distribution(logits), expected)
    monkeypatch.setattr(votes, "TENSORS_AT_ONCE", 10**7)  # a position at a time
    assert_close(mean_distribution(logits), expected)
    # what is too small for float32 still has a logarithm
    far = torch.tensor([[0.0, -200.0]])
    assert_close(mean_distribution(far), [0.0, -200.0])


# six problems of two agents and two turns: [problem][turn][agent]
DEBATES = [
    [["a", "a"], ["a", "a"]],  # both agree from the start
    [["a", "b"], ["b", "b"]],  # agent 0 is corrected
    [["a", "b"], ["a", "b"]],  # a tie, which the vote decided for a
    [[None, "a"], ["a", None]],  # unparsable first, then corrected; and the other way round
    [["b", "a"], ["a", "b"]],  # agent 1 leaves what was right
    [[None, None], [None, None]],  # nothing can be read
]
LABELS = ["a", "b", "a", "a", "a", None]


def test_filters_by_hand() -> None:
    first, second = (select(DEBATES, LABELS, agent) for agent in (0, 1))
    assert (first.generation, first.corrected, first.kept) == ([0, 2], [1, 3, 4], [0, 2])
    assert (second.generation, second.corrected, second.kept) == ([0, 1, 3, 4], [], [0, 1])


def test_with_three_turns_the_first_and_the_last_count() -> None:
    debates = [[["a"], ["b"], ["a"]], [["b"], ["a"], ["a"]], [["a"], ["a"], ["b"]]]
    found = select(debates, ["a", "a", "a"], 0)
    assert (found.generation, found.corrected, found.kept) == ([0, 2], [1], [0])


@pytest.mark.parametrize(
    ("corrected", "kept", "share", "counts"),
    [
        (4, 10, 0.5, (4, 4)),
        (10, 3, 0.75, (9, 3)),
        (3, 7, 0.3, (3, 7)),  # 0.3 * 10 is not 3 in floats
        (5, 9, 0.0, (0, 9)),
        (0, 9, 0.5, (0, 0)),
    ],
)
def test_proportions(corrected: int, kept: int, share: float, counts: tuple[int, int]) -> None:
    fixed, same = list(range(corrected)), list(range(100, 100 + kept))
    found = mix_critic_debates(fixed, same, share, np.random.default_rng(0))
    assert (sum(n < 100 for n in found), sum(n >= 100 for n in found)) == counts
    assert len(set(found)) == len(found) and set(found) <= {*fixed, *same}


def test_what_there_is_too_much_of_is_drawn() -> None:
    drawn = {
        tuple(mix_critic_debates([1], range(100, 120), 0.5, np.random.default_rng(seed)))
        for seed in range(20)
    }
    assert len(drawn) > 5


@pytest.mark.parametrize(
    ("right", "of", "k", "expected"),
    [
        (1, 4, 1, 1 / 4),  # k = 1: the share of right tries
        (1, 4, 2, 1 / 2),  # of 6 pairs, 3 hold the right one
        (2, 4, 2, 5 / 6),  # only the pair of the two wrong ones fails
        (2, 4, 3, 1.0),  # three tries cannot all be among two wrong ones
        (2, 16, 8, 1 - 28 / 120),  # C(14, 8) / C(16, 8) = 8 * 7 / (16 * 15)
        (0, 16, 16, 0.0),
        (5000, 10_000, 3, 1 - (5000 * 4999 * 4998) / (10_000 * 9999 * 9998)),
    ],
)
def test_the_estimator_by_hand(right: int, of: int, k: int, expected: float) -> None:
    assert_close(pass_at_k(right, of, k), expected)


def test_contributions_have_the_ratio_as_their_mean() -> None:
    sums, counts = [3.0, 0.0, 5.0], [4.0, 2.0, 6.0]
    found = contributions(sums, counts)
    assert_close(mean(found), 8 / 12)
    # the first word's games went a third better than the ratio says: 3 of 4 instead of 8 of 12
    assert_close(found[0], 8 / 12 + (3 - 4 * 8 / 12) / 4)
    assert_close(contributions([1.0, 2.0], [2.0, 2.0]), [0.5, 1.0])


# 95th percentiles of Student's t, as tables print them
T_2, T_3 = 2.919986, 2.353363


def test_the_interval_of_three_seeds() -> None:
    """1, 2 and 3: mean 2, s = 1, half width t / sqrt(3)."""
    half = T_2 / math.sqrt(3)
    assert mean_interval([1.0, 2.0, 3.0]) == pytest.approx((2 - half, 2 + half), abs=1e-6)


@pytest.mark.parametrize("values", [[], [1.0], [0.3, 0.3], [0.3, 0.1 * 3], [0.0, 0.0, 0.0]])
def test_what_does_not_vary_says_nothing_about_others(values: list[float]) -> None:
    assert mean_interval(values) is None


def test_differences_are_paired() -> None:
    # differences 1, 2, 6: mean 3, variance 7
    half = T_2 * math.sqrt(7 / 3)
    found = paired_interval([10, 20, 30], [11, 22, 36])
    assert found == pytest.approx((3 - half, 3 + half), abs=1e-6)
    assert paired_interval([1.0], [2.0]) is None
    with pytest.raises(ValueError, match="shapes"):
        paired_interval([1.0, 2.0], [1.0, 2.0, 3.0])


def test_shares_count_two_tries_more() -> None:
    """One of four rose: as if six, of which the squares sum to 2 and the changes to 1."""
    half = T_3 * math.sqrt((2 / 6 - 1 / 36) / 6)
    found = paired_interval([0, 1, 0, 1], [1, 1, 0, 1], 1)
    assert found == pytest.approx((1 / 6 - half, 1 / 6 + half), abs=1e-6)


def test_shares_of_one_sample_count_one_right_and_one_wrong_try_more() -> None:
    """Three of four: as if four of six; of two tries each, as if 3.5 of 5."""
    half = T_3 * math.sqrt((4 / 6 - (4 / 6) ** 2) / 6)
    assert share_interval([1, 1, 0, 1], 1) == pytest.approx((4 / 6 - half, 1.0), abs=1e-6)
    half = T_3 * math.sqrt((3.5 / 5 - 0.7**2) / 5)
    assert share_interval([1, 1, 0, 1], 2) == pytest.approx((0.7 - half, 1.0), abs=1e-6)
    low, high = share_interval([0.0] * 100, 1) or (1, 1)
    assert 0 == low < high < 0.05 and share_interval([1.0], 1) is None


def test_shares_that_all_change_alike_are_not_certain() -> None:
    for before, after in ((0.0, 1.0), (1.0, 1.0), (1.0, 0.0)):
        low, high = paired_interval([before] * 8, [after] * 8, 1) or (0, 0)
        assert -1 <= low < high <= 1 and high - low > 0.15
    # four tries a prompt say more than one
    (few, _), (many, _) = (paired_interval([0.0] * 8, [1.0] * 8, n) or (0, 0) for n in (1, 4))
    assert many > few


def test_the_pairs_that_would_tell() -> None:
    """Differences 0 and 2: mean 1, s = 1.414. n = 14: (1.771 + 0.842) 1.414 / sqrt(14) = 0.987
    is the first below 1; n = 13 gives (1.782 + 0.842) 1.414 / sqrt(13) = 1.029.
    """
    assert pairs_needed([0.0, 2.0]) == 14
    assert pairs_needed([0.0, 2.0], most=13) is None
    assert pairs_needed([9.9, 10.1]) == 2
    assert pairs_needed([1.0]) is None and pairs_needed([1.0, 1.0]) is None
    assert pairs_needed([-1.0, 1.0]) is None


VALUES = torch.tensor([[0.5, -1.0, 2.0], [0.1, 0.2, 0.0]])
LOGPROBS = torch.tensor([[-1.0, -0.5, -3.0], [-2.0, -4.0, 0.0]])


def test_a_verdict_counts_the_tokens_before_it_and_not_the_next_one() -> None:
    found = verdict_logits(VALUES, LOGPROBS, 0.5)
    assert_close(found[0], torch.tensor([0.5, -1.0 - 0.5, 2.0 - 0.75]))
    assert_close(found[1, :2], torch.tensor([0.1, 0.2 - 1.0]))


def test_both_the_head_and_the_likelihood_learn() -> None:
    values, logprobs = VALUES.clone().requires_grad_(), LOGPROBS.clone().requires_grad_()
    verdict_logits(values, logprobs, 0.5)[0, 2].backward()
    assert values.grad is not None and logprobs.grad is not None
    assert values.grad.tolist() == [[0.0, 0.0, 1.0], [0.0] * 3]
    assert logprobs.grad.tolist() == [[0.5, 0.5, 0.0], [0.0] * 3]


@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        ([0.9], [0.1], 1.0),
        ([0.1], [0.9], 0.0),
        ([0.5], [0.5], 0.5),
        # pairs: .8 above both, .4 above .3 and level with .4
        ([0.8, 0.4], [0.3, 0.4], 3.5 / 4),
        ([0.2, 0.2, 0.7], [0.2], 2 / 3),
    ],
)
def test_auc_by_hand(right: list[float], wrong: list[float], expected: float) -> None:
    assert_close(auc(right, wrong), expected)
