"""How different answers are: hand-made cases."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from cory.functional import votes
from cory.functional.votes import (
    consensus_diversity,
    dissimilarity,
    kl,
    kl_between,
    kl_diversity,
    mean_distribution,
)
from tests.support.close import assert_close

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


def test_the_mean_of_distributions_in_any_slabs(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.randn(7, 5, generator=torch.Generator().manual_seed(0)) * 40
    expected = F.softmax(logits.double(), -1).mean(0).log()
    assert_close(mean_distribution(logits), expected)
    monkeypatch.setattr(votes, "TENSORS_AT_ONCE", 10**7)  # a position at a time
    assert_close(mean_distribution(logits), expected)
    # what is too small for float32 still has a logarithm
    far = torch.tensor([[0.0, -200.0]])
    assert_close(mean_distribution(far), [0.0, -200.0])
