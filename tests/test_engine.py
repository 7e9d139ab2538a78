"""The dictionary that DeepSpeed is started with."""

from __future__ import annotations

from cory.config import BatchPlan, HardwareConfig
from cory.engine import deepspeed_settings


def test_settings_follow_hardware_plan_and_precision() -> None:
    hardware = HardwareConfig(
        name="x", device="cuda", zero_stage=2, microbatch_size=8, rollout_batch_size=64
    )
    plan = BatchPlan(minibatches=4, microbatch=8, accumulation=16)
    assert deepspeed_settings(hardware, plan, "bf16", 0.5) == {
        "train_micro_batch_size_per_gpu": 8,
        "gradient_accumulation_steps": 16,
        "gradient_clipping": 0.5,
        "zero_optimization": {"stage": 2},
        "bf16": {"enabled": True},
        "zero_allow_untested_optimizer": True,
        "steps_per_print": 10**9,
        "wall_clock_breakdown": False,
    }
    plain = deepspeed_settings(hardware, plan, "fp32", None)
    assert plain["gradient_clipping"] == 0.0
    assert plain["bf16"] == {"enabled": False}
