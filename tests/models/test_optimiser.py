"""AdamW with 8-bit moments under DeepSpeed, on the CPU, where settings do not allow it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from cory.config import Config
from cory.models.engine import Engine
from cory.models.optimiser import CODES
from tests.models.test_engine import descend, engine_of, model_of

ConfigOf = Callable[..., Config]
STAGES = pytest.mark.parametrize(
    "stage",
    [0, 1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)],
)


def new_engine(config_of: ConfigOf, optimizer: str, stage: int, value_rate: str = "null") -> Engine:
    config = config_of(
        "algorithm=ppo",
        "algorithm.learning_rate=1e-2",
        f"algorithm.value_learning_rate={value_rate}",
        f"hardware.zero_stage={stage}",
        "hardware.keep_whole_below=0",
    )
    config = config.replace(algorithm=config.algorithm.replace(optimizer=optimizer))
    return engine_of(config, model_of(config), [])


@STAGES
def test_moments_take_a_byte_and_steps_are_nearly_adams(config_of: ConfigOf, stage: int) -> None:
    whole, packed = (new_engine(config_of, name, stage) for name in ("adamw", "adamw_8bit"))
    exact, found = descend(whole, steps=6), descend(packed, steps=6)
    assert found[-1][0] < found[0][0] - 0.1
    assert [loss for loss, _ in found] == pytest.approx([loss for loss, _ in exact], rel=0.02)
    assert found != exact
    largest = max(packed.moments(), key=lambda state: state["state1"].numel())
    assert largest["state1"].dtype == largest["state2"].dtype == torch.uint8
    assert sum(state["state1"].numel() for state in packed.moments()) >= sum(
        p.ds_numel if stage == 3 else p.numel() for p in packed.trainable.values()
    )


@STAGES
def test_a_reset_equals_a_new_optimiser(config_of: ConfigOf, stage: int) -> None:
    engine = new_engine(config_of, "adamw_8bit", stage)
    with engine.whole():
        start = {name: p.detach().clone() for name, p in engine.trainable.items()}
    first = descend(engine, steps=4)
    engine.set_weights(start)
    engine.reset_optimizer()
    for state in engine.moments():
        assert state["step"] == 0
        assert all(state[name].abs().sum() > 0 for name in CODES if name in state)
    assert descend(engine, steps=4) == first


@STAGES
@pytest.mark.parametrize(("optimizer", "value_rate"), [("adamw", "3e-2"), ("adamw_8bit", "3e-2")])
def test_a_loaded_checkpoint_goes_on_to_the_last_bit(
    config_of: ConfigOf, optimizer: str, value_rate: str, stage: int, tmp_path: Path
) -> None:
    engine = new_engine(config_of, optimizer, stage, value_rate)
    descend(engine, steps=3)
    engine.set_learning_rate(3e-3)
    engine.save(tmp_path)
    expected = descend(engine, steps=4)
    again = new_engine(config_of, optimizer, stage, value_rate)
    again.load(tmp_path)
    assert again.learning_rate == 3e-3
    assert descend(again, steps=4) == expected
