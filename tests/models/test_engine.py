"""Parameters under DeepSpeed: settings, stages, rates, and policies that share one engine."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from cory.config import BatchPlan, Config, HardwareConfig
from cory.models.actor_critic import ActorCriticModel
from cory.models.bundle import ModelBundle
from cory.models.engine import CODES, Engine, deepspeed_settings
from cory.models.policy import Policy
from cory.runtime.worker import build_components
from tests.support.close import assert_close
from tests.support.composing import ConfigOf, parsed
from tests.support.supervising import NAMES


def hardware(*words: str) -> HardwareConfig:
    return parsed("hardware=gpu1", *(f"hardware.{word}" for word in words)).hardware


def test_settings_follow_hardware_plan_and_precision() -> None:
    plan = BatchPlan(microbatch=8, accumulation=16)
    assert deepspeed_settings(hardware("zero_stage=2"), plan, "bf16", 0.5) == {
        "train_micro_batch_size_per_gpu": 8,
        "gradient_accumulation_steps": 16,
        "gradient_clipping": 0.5,
        "zero_optimization": {"stage": 2, "reduce_bucket_size": 50_000_000},
        "bf16": {"enabled": True},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 10**9,
    }
    plain = deepspeed_settings(hardware(), plan, "fp32", None)
    assert plain["gradient_clipping"] == 0.0
    assert plain["bf16"] == {"enabled": False}
    assert plain["zero_optimization"] == {"stage": 0}
    away = ("offload_optimizer=true", "offload_parameters=true")
    all_out = hardware("zero_stage=3", "keep_whole_below=1000", *away)
    assert deepspeed_settings(all_out, plan, "bf16", None)["zero_optimization"] == {
        "stage": 3,
        "reduce_bucket_size": 50_000_000,
        "stage3_param_persistence_threshold": 1000,
        "offload_optimizer": {"device": "cpu"},
        "offload_param": {"device": "cpu"},
    }


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    ids = torch.randint(0, 300, (4, 12), generator=torch.Generator().manual_seed(0))
    return ids, torch.ones_like(ids, dtype=torch.bool), torch.ones(4, 6, dtype=torch.bool)


def model_of(config: Config) -> ActorCriticModel:
    bundle = ModelBundle(config.model, torch.device("cpu"))
    return next(bundle.new_models(["agent_0"], torch.Generator().manual_seed(0)))


def engine_of(config: Config, model: ActorCriticModel) -> Engine:
    plan, precision = BatchPlan(microbatch=4, accumulation=1), config.model.precision
    return Engine(model, config.algorithm, config.hardware, plan, precision, [])


def descend(engine: Engine, steps: int) -> list[tuple[float, float]]:
    """Loss and gradient norm of some steps towards the same tokens."""
    seen = []
    for _ in range(steps):
        logprobs, values, *_ = engine(*inputs())
        loss = -logprobs.mean()
        if values is not None:
            loss = loss + 0.1 * values.square().mean()
        engine.backward(loss)
        norm = engine.step()
        assert norm is not None
        seen.append((loss.item(), norm))
    return seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sharing", "value_rate", "precision"),
    [("adapters", "3e-2", "fp32"), ("copies", "null", "bf16")],
)
def test_every_stage_takes_the_same_steps(config_of, sharing, value_rate, precision) -> None:
    """At stage 0 in half precision DeepSpeed's first step would be a quarter too short.

    Weights that are set are those that DeepSpeed steps from.
    """
    found = []
    for stage in range(4):
        config = config_of(
            *("algorithm=ppo", "algorithm.learning_rate=1e-2"),
            *(f"algorithm.value_learning_rate={value_rate}", f"model.sharing={sharing}"),
            *(f"model.precision={precision}", f"hardware.zero_stage={stage}"),
            "hardware.keep_whole_below=0",
        )
        model = model_of(config)
        engine = engine_of(config, model)
        with engine.whole():
            start = {name: p.detach().clone() for name, p in engine.trainable.items()}
        found.append(descend(engine, steps=4))
        # back to the start, as a training of its own, it goes the same way
        engine.set_weights(start)
        engine.reset_optimizer()
        assert descend(engine, steps=4) == found[-1]
    assert found[0][-1][0] < found[0][0][0] - 1e-3
    for other in found[1:]:
        # bf16 sums gradients in another order at stage 0: its norm agrees to three digits
        tolerance = 1e-5 if precision == "fp32" else 2e-3
        assert_close(torch.tensor(other), torch.tensor(found[0]), rtol=tolerance)


# AdamW with 8-bit moments, on the CPU, where settings do not allow it


def new_engine(config_of: ConfigOf, optimizer: str, stage: int, value_rate: str = "null") -> Engine:
    config = config_of(
        *("algorithm=ppo", "algorithm.learning_rate=1e-2"),
        *(f"algorithm.value_learning_rate={value_rate}", f"hardware.zero_stage={stage}"),
        "hardware.keep_whole_below=0",
    )
    config = config.replace(algorithm=config.algorithm.replace(optimizer=optimizer))
    return engine_of(config, model_of(config))


@pytest.mark.parametrize("stage", [0, pytest.param(3, marks=pytest.mark.slow)])
def test_8_bit_moments_take_a_byte_and_are_reset(config_of: ConfigOf, stage: int) -> None:
    whole, packed = (new_engine(config_of, name, stage) for name in ("adamw", "adamw_8bit"))
    with packed.whole():
        start = {name: p.detach().clone() for name, p in packed.trainable.items()}
    exact, found = descend(whole, steps=6), descend(packed, steps=6)
    assert found[-1][0] < found[0][0] - 0.1
    assert [loss for loss, _ in found] == pytest.approx([loss for loss, _ in exact], rel=0.02)
    assert found != exact
    largest = max(packed.moments().values(), key=lambda state: state["state1"].numel())
    assert largest["state1"].dtype == largest["state2"].dtype == torch.uint8
    assert sum(state["state1"].numel() for state in packed.moments().values()) >= sum(
        p.ds_numel if stage == 3 else p.numel() for p in packed.trainable.values()
    )
    packed.set_weights(start)
    packed.reset_optimizer()
    for state in packed.moments().values():
        assert state["step"] == 0
        assert all(state[name].abs().sum() > 0 for name in CODES if name in state)
    assert descend(packed, steps=6) == found


@pytest.mark.parametrize("stage", [0, pytest.param(2, marks=pytest.mark.slow), 3])
def test_a_loaded_checkpoint_of_8_bit_moments_goes_on_to_the_last_bit(
    config_of: ConfigOf, stage: int, tmp_path: Path
) -> None:
    engine = new_engine(config_of, "adamw_8bit", stage, "3e-2")
    descend(engine, steps=3)
    engine.set_learning_rate(3e-3)
    engine.save(tmp_path)
    expected = descend(engine, steps=4)
    again = new_engine(config_of, "adamw_8bit", stage, "3e-2")
    again.load(tmp_path)
    assert again.learning_rate == 3e-3
    assert descend(again, steps=4) == expected


SETTINGS = ["algorithm.iterations=2", "hardware.microbatch_size=4"]
THREE = [*SETTINGS, "algorithm.policies=generation"]


def built(config: Config) -> dict[str, Policy]:
    return build_components(config).new_policies(config.algorithm.names())


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
def test_the_same_steps_as_with_an_engine_each(maft, monkeypatch, stage, precision) -> None:
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
