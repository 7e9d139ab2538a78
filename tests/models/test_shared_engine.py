"""Policies that take turns in one engine, against policies that have one each."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cory.config import Config
from cory.models.policy import Policy
from cory.runs.checkpoint import Checkpoints
from cory.runtime.worker import build_parts
from tests.models.test_engine import descend
from tests.support.agents import NAMES, Settings, build_agents

SETTINGS = ["algorithm.iterations=2", "hardware.microbatch_size=4"]
THREE = [*SETTINGS, "algorithm.policies=generation"]


def built(config: Config) -> dict[str, Policy]:
    return build_parts(config).new_policies(config.algorithm.names())


def weights_of(policy: Policy) -> list[torch.Tensor]:
    """Those of the passes, whole."""
    with policy.whole():
        return [weight.detach().clone() for weight in policy.engine.trainable.values()]


def same(ours: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(ours, others, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "precision"), [(0, "bf16"), (2, "bf16"), (3, "bf16"), (3, "fp32")]
)
def test_the_same_steps_as_with_an_engine_each(
    maft: Settings, monkeypatch: pytest.MonkeyPatch, stage: int, precision: str
) -> None:
    """Trained in turn and again, to the last bit: bf16 must not drop what was too small for it."""
    config = maft(
        *THREE,
        "algorithm.minibatch_size=4",
        "algorithm.learning_rate=1e-5",  # far below what bf16 resolves
        f"hardware.zero_stage={stage}",
        "hardware.keep_whole_below=200",  # of some weights
        f"model.precision={precision}",
    )
    ours = built(config)
    monkeypatch.setattr(type(config.algorithm), "one_engine", lambda *_: False)
    others = built(config)
    assert len({id(policy.engine) for policy in ours.values()}) == 1
    assert len({id(policy.engine) for policy in others.values()}) == 3
    start = weights_of(ours[NAMES[0]])
    for name in (NAMES[0], NAMES[2], NAMES[0], NAMES[1]):
        found = []
        for policy in (ours[name], others[name]):
            policy.start_update()
            policy.engine.reset_optimizer()
            policy.engine.set_learning_rate(1e-5)
            found.append(descend(policy.engine, steps=3))
        assert found[0] == found[1]
    assert not same(weights_of(ours[NAMES[0]]), start)
    for name, policy in ours.items():
        assert same(weights_of(policy), weights_of(others[name]))


@pytest.mark.slow
@pytest.mark.parametrize("stage", [0, 3])
def test_a_checkpoint_holds_all_policies(maft: Settings, tmp_path: Path, stage: int) -> None:
    """Two iterations are one and one to the last bit, saved between them."""
    words = [
        *THREE,
        f"hardware.zero_stage={stage}",
        "hardware.keep_whole_below=0",
        "model.precision=bf16",
    ]
    config = maft(*words, f"run_dir={tmp_path / 'whole'}")
    whole = build_agents(config)
    checkpoints = Checkpoints(tmp_path, "this run", config.hardware, 3)

    whole.step(0)
    checkpoints.save(1, whole.agents, {"algorithm": whole.state_dict()})
    files = [path for path in (tmp_path / "checkpoints/000001").glob("*/*")]
    assert {path.parent.name for path in files} == {*NAMES[:3]}
    assert all([*torch.load(path)] == ["weights"] for path in files)
    whole.step(1)

    again = build_agents(maft(*words, f"run_dir={tmp_path / 'again'}"))
    restored = checkpoints.restore(again.agents)
    assert restored is not None and restored[0] == 1
    again.load_state_dict(restored[1]["algorithm"])
    again.step(1)
    unsaved = build_agents(maft(*words, f"run_dir={tmp_path / 'unsaved'}"))
    for iteration in range(2):
        unsaved.step(iteration)
    found, expected, others = (
        {name: weights_of(policy) for name, policy in trainer.agents.items()}
        for trainer in (again, whole, unsaved)
    )
    assert all(same(found[name], expected[name]) for name in NAMES[:3])
    assert all(same(others[name], expected[name]) for name in NAMES[:3])


def test_fp16_begins_with_the_first_scale(maft: Settings) -> None:
    """Each training on its own: the scale of the loss is not another policy's."""
    policies = built(maft(*SETTINGS, "hardware.zero_stage=2"))
    engine = policies[NAMES[0]].engine
    first = dict(engine._scale())
    engine._scale()["cur_scale"] = 7.0
    engine.reset_optimizer()
    assert engine._scale() == first and first["cur_scale"] != 7.0
