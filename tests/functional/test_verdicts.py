"""Verdicts of a verifier, by hand."""

from __future__ import annotations

import torch

from cory.functional.verdicts import verdict_logits
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
