"""The learning rate of each step, as each trainer sets it."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from cory.trainers.steps import Stage, paced
from tests.support.building import LetterShare, build
from tests.support.composing import ConfigOf
from tests.support.supervising import VERIFIER, build_verifier

FALLING = ("algorithm.schedule=linear", "algorithm.warmup=0.25", "algorithm.final_share=0.2")


def linear(progress: float) -> float:
    """FALLING by hand."""
    if progress < 0.25:
        return progress / 0.25
    return 0.2 + 0.8 * (1 - progress) / 0.75


def rates_of(policy: Any) -> list[float]:
    """Takes the learning rates that are set from now on."""
    rates: list[float] = []
    given = policy.engine.set_learning_rate

    def noting(value: float) -> None:
        rates.append(value)
        given(value)

    policy.engine.set_learning_rate = noting
    return rates


def test_a_rate_is_set_right_before_its_step() -> None:
    rates: list[float] = []
    policy: Any = SimpleNamespace(engine=SimpleNamespace(set_learning_rate=rates.append))
    settings: Any = SimpleNamespace(schedule="linear", warmup=0.25, final_share=0.2)
    batches = paced([[1], [2]], 2, Stage(part=1, parts=2, peak=10.0), settings, policy)
    assert rates == []
    assert next(batches) == [1]
    assert rates == pytest.approx([10 * linear(0.625)])
    assert next(batches) == [2]
    assert rates == pytest.approx([10 * linear(0.625), 10 * linear(0.875)])


def test_ppo_goes_through_its_schedule_once_in_a_run(config_of: ConfigOf) -> None:
    words = ("algorithm.iterations=4", "algorithm.epochs=2", "algorithm.minibatch_size=4")
    config = config_of("algorithm=cory", "algorithm.swap_every=2", *words, *FALLING)
    trainer = build(config, LetterShare())
    noted = {name: rates_of(agent) for name, agent in trainer.agents.items()}
    logged = [trainer.step(iteration) for iteration in range(4)]
    expected = [config.algorithm.learning_rate * linear((n + 0.5) / 16) for n in range(16)]
    for name, rates in noted.items():
        assert rates == pytest.approx(expected)
        found = [metrics[f"ppo/learning_rate/{name}"] for metrics in logged]
        assert found == pytest.approx(expected[3::4])  # of the last step


def test_a_verifier_goes_through_its_schedule_once_in_a_run(questions: ConfigOf) -> None:
    """However many examples an iteration finds."""
    config = questions(*VERIFIER, *FALLING, "algorithm.epochs=2")
    trainer = build_verifier(config)
    (policy,) = trainer.agents.values()
    expected = []
    for iteration in range(2):
        rates = rates_of(policy)
        metrics = trainer.step(iteration)
        steps = 2 * math.ceil(metrics["verifier/examples"] / config.algorithm.minibatch_size)
        expected = [3e-3 * linear((iteration + (n + 0.5) / steps) / 2) for n in range(steps)]
        assert steps > 0 and rates == pytest.approx(expected)
        assert metrics["verifier/learning_rate"] == pytest.approx(expected[-1])
