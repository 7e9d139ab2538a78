"""The trainer of examples: minibatches, iterations without any, losses that are no numbers."""

import math
from typing import Any

import pytest
import torch

from cory.config import Config
from cory.functional.losses import token_bce
from cory.trainers.steps import TrainingDiverged
from cory.trainers.supervised import CollectedExamples, Example, SupervisedTrainer, response_nll
from tests.support.close import assert_close
from tests.support.composing import ConfigOf
from tests.support.supervising import VERIFIER, build_verifier

LABELS = [1.0, 0.0, 1.0, 1.0, 0.0]
EXAMPLES = [
    Example([40 + number] * (1 + number), list(range(60, 62 + number)), label)
    for number, label in enumerate(LABELS)
]


def trainer_of(config: Config, examples: list[Example]) -> SupervisedTrainer:
    """One that learns from the same examples in every iteration."""
    trainer = build_verifier(config)
    trainer.collect = lambda iteration: CollectedExamples({"verifier": examples}, [])
    return trainer


def weights(trainer: SupervisedTrainer) -> dict[str, torch.Tensor]:
    pieces = trainer.agents["verifier"].engine.own_parts()
    return {name: piece.clone() for name, piece in pieces.items()}


def by_hand(trainer: SupervisedTrainer, examples: list[Example], average: str) -> torch.Tensor:
    """The loss of examples one by one, without padding, averaged over tokens or over examples."""
    model = trainer.agents["verifier"].model
    losses = []
    for example in examples:
        ids = torch.tensor([[*example.context_ids, *example.response_ids]])
        mask = torch.ones(1, len(example.response_ids), dtype=torch.bool)
        logprobs, values, *_ = model(ids, torch.ones_like(ids, dtype=torch.bool), mask)
        losses.append(trainer.loss(logprobs, values, torch.tensor([example.label]), mask)[0][0])
    if average == "tokens":
        return torch.cat(losses).mean()
    return torch.stack([own.mean() for own in losses]).mean()


@pytest.mark.parametrize(
    ("loss", "average"), [(token_bce, "tokens"), (response_nll, "tokens"), (token_bce, "responses")]
)
def test_a_step_is_the_one_worked_by_hand(questions: ConfigOf, loss: Any, average: str) -> None:
    """Five examples in minibatches of eight: three rows are absent and change nothing."""
    words = ("algorithm.minibatch_size=8", "hardware.microbatch_size=4")
    config = questions(*VERIFIER, *words, f"algorithm.average={average}")
    ours, theirs = trainer_of(config, EXAMPLES), trainer_of(config, EXAMPLES)
    for trainer in (ours, theirs):
        if loss is token_bce:
            trainer.loss = lambda _, values, labels, mask: (token_bce(values, labels, mask), {})
        else:
            trainer.loss = response_nll
    model = theirs.agents["verifier"].model
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    expected_loss = by_hand(theirs, EXAMPLES, average)
    expected_loss.backward()
    gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    norm = torch.stack([gradient.norm() for gradient in gradients.values()]).norm().item()
    optimizer.step()
    found = ours.step(0)
    assert_close(found["verifier/loss"], expected_loss.item())
    assert_close(found["verifier/gradient_norm"], norm, rtol=1e-4)
    assert found["verifier/examples"] == 5
    expected = dict(model.named_parameters())
    for name, piece in weights(ours).items():
        if name in gradients:  # Adam makes whole steps of gradients that are rounding alone
            real = gradients[name].abs() > 1e-5
            both = piece[real], expected[name].detach()[real]
            torch.testing.assert_close(*both, rtol=1e-4, atol=1e-5, msg=name)


def test_an_iteration_without_examples_steps_nothing(questions: ConfigOf) -> None:
    trainer = build_verifier(questions(*VERIFIER), letters="")  # nothing is right
    before = weights(trainer)
    for iteration in (0, 1):
        found = trainer.step(iteration)
        assert found["verifier/examples"] == 0
        assert found["verifier/questions_kept"] == 0 and "verifier/loss" not in found
    after = weights(trainer)
    assert all(torch.equal(piece, after[name]) for name, piece in before.items())


def test_a_loss_that_is_no_number_stops_the_run(questions: ConfigOf) -> None:
    trainer = trainer_of(questions(*VERIFIER), EXAMPLES)
    trainer.loss = lambda logprobs, values, labels, mask: (values * math.nan, {})
    with pytest.raises(TrainingDiverged, match="iteration 1: verifier/loss is not finite"):
        trainer.step(0)
