"""Rows of a batch, minibatches of fewer rows than processes, and the rate of each step."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cory import distributed
from cory.config import BatchPlan, ConfigError, PPOConfig, SupervisedConfig, plan_of
from cory.episode import Batch
from cory.trainers.steps import Resumable, Stage, add_step, minibatches, optimiser_step, paced
from cory.trainers.supervised import Example
from tests.support.building import LetterShare, build
from tests.support.composing import ConfigOf
from tests.support.supervising import VERIFIER, build_verifier


class Engine:
    """Takes every pass for a whole step."""

    backwards = 0

    def backward(self, loss: torch.Tensor) -> None:
        self.backwards += 1

    def step(self) -> float:
        return 1.0


@pytest.mark.parametrize(("rows", "world"), [(1, 1), (1, 3), (2, 3), (3, 3)])
def test_every_process_has_as_many_rows(rows: int, world: int, monkeypatch) -> None:
    examples = [Example([1], [5] * (number + 1), 1.0) for number in range(rows)]
    monkeypatch.setattr(distributed, "count", lambda: world)
    monkeypatch.setattr(distributed, "summed", lambda numbers: numbers)
    (minibatch,) = minibatches(examples, rows, 1, torch.Generator())
    seen: list[list[Example | None]] = []

    def objective(part: list[Example | None]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        seen.append(part)
        tokens = sum(len(row.response_ids) for row in part if row is not None)
        return torch.zeros(()), {"tokens": torch.tensor(tokens)}

    for rank in range(world):
        monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
        policy: Any = SimpleNamespace(engine=Engine())
        step = optimiser_step(policy, minibatch, 1, objective, [0] * len(minibatch))
        # an absent row has no token, and nobody waits for a process without one
        assert step["tokens"] == sum(len(e.response_ids) for e in seen[-1] if e)
        assert policy.engine.backwards == 1
    assert [row for part in seen for row in part] == minibatch
    assert sorted(map(str, minibatch)) == sorted(map(str, [*examples, *[None] * (world - rows)]))


def test_rows_of_similar_length_share_a_microbatch() -> None:
    seen: list[list[int]] = []

    def objective(part: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        seen.append(part)
        return torch.zeros(()), {"sum": torch.tensor(float(sum(part)))}

    policy: Any = SimpleNamespace(engine=Engine())
    step = optimiser_step(policy, [4, 7, 1, 2], 2, objective, [9, 3, 8, 3])
    assert seen == [[7, 2], [1, 4]] and step["sum"] == 14


def test_every_epoch_goes_through_all_rows_in_another_order() -> None:
    found = [list(map(int, rows)) for rows in minibatches(range(8), 4, 4, torch.Generator())]
    epochs = {tuple(found[n] + found[n + 1]) for n in range(0, 8, 2)}
    assert len(epochs) == 4 and all(sorted(epoch) == list(range(8)) for epoch in epochs)


def test_only_what_is_filled_up_may_be_smaller_than_the_processes() -> None:
    def plan(settings: Any, turns: int) -> BatchPlan:
        algorithm = settings.model_construct(minibatch_size=turns, prompts_per_iteration=turns)
        hardware = SimpleNamespace(microbatch_size=4, world=8)
        config: Any = SimpleNamespace(algorithm=algorithm, hardware=hardware)
        return plan_of(config)

    assert plan(SupervisedConfig, 1) == BatchPlan(microbatch=1, accumulation=1)
    assert plan(PPOConfig, 64) == BatchPlan(microbatch=4, accumulation=2)
    with pytest.raises(ConfigError, match="must be a multiple of the number of processes"):
        plan(PPOConfig, 1)
    with pytest.raises(ConfigError, match="=12: must be a multiple of the number of processes"):
        plan(SupervisedConfig, 12)


def test_rows_picks_the_same_turns_of_every_field() -> None:
    """Two turns of 2 context and 3 response tokens; the second has 1 and 1."""
    responses = torch.tensor([[True, True, True], [True, False, False]])
    contexts = torch.tensor([[True, True], [False, True]])
    fields = {
        "input_ids": torch.arange(10).reshape(2, 5),
        "attention_mask": torch.cat([contexts, responses], dim=1),
        "response_mask": responses,
        "credits": torch.tensor([1.0, 2.0]),
    }
    for i, name in enumerate(("logprobs", "ref_logprobs", "kl", "entropy", "values"), start=1):
        fields[name] = i * responses.float()
    picked = Batch(**fields).rows(torch.tensor([1, 0, 1]))
    assert len(picked) == 3
    for name, tensor in fields.items():
        assert getattr(picked, name).tolist() == [tensor[i].tolist() for i in (1, 0, 1)], name


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
    how = {"schedule": "linear", "warmup": 0.25, "final_share": 0.2, "minibatch_size": 1}
    stage, settings = Stage(part=1, parts=2, peak=10.0), SimpleNamespace(**how)
    batches = paced(policy, [7, 7], 1, stage, settings, torch.Generator())  # type: ignore[arg-type]
    assert rates == []
    assert next(batches) == [7]
    assert rates == pytest.approx([10 * linear(0.625)])
    assert next(batches) == [7]
    assert rates == pytest.approx([10 * linear(0.625), 10 * linear(0.875)])


def test_the_last_step_is_one_without_finite_numbers() -> None:
    sums: dict[str, float] = {}
    assert add_step(sums, {"loss": 0.5}) and not add_step(sums, {"loss": math.inf})


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


class Counted(Resumable):
    kept = ("counts",)

    def __init__(self) -> None:
        self.counts = {"a": 0}


def test_a_state_that_was_taken_or_given_does_not_go_on_with_its_component() -> None:
    one, other = Counted(), Counted()
    state = one.state_dict()
    one.counts["a"] += 1
    assert state == {"counts": {"a": 0}}
    other.load_state_dict(one.state_dict() | {"counts": state["counts"]})
    other.counts["a"] += 2
    assert state == {"counts": {"a": 0}}
