"""Verdicts of a verifier, and the AUC of them, by hand."""

from __future__ import annotations

import pytest
import torch

from cory.functional.losses import verdict_logits
from cory.functional.statistics import auc, auc_contributions, mean
from tests.support.close import assert_close

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


def test_contributions_to_an_auc() -> None:
    groups = [([0.9, 0.4], [0.4]), ([0.7], []), ([], [0.1, 0.8])]
    found = auc_contributions(groups)
    assert_close(mean(found), auc([0.9, 0.4, 0.7], [0.4, 0.1, 0.8]))
    # the second: its right answer lies above 2 of 3 wrong ones, as the AUC's mean has 2/3 + 1/18
    assert_close(found[1], mean(found) + 3 * (2 / 3 - mean(found)) / 3)
