"""Settings of the optimiser: that every trainer has them."""

from __future__ import annotations

import pytest

from cory.config import ConfigError
from tests.support.composing import parsed

EXPERIMENTS = (
    "experiment=quickstart",
    "experiment=quickstart algorithm=ppo",
    "experiment=maporl/gsm8k_maporl_exact",
    "experiment=maporl/verifier_gsm8k",
    "experiment=maporl/gsm8k_sft",
    "experiment=spag/llama2_im",
    "experiment=spag/llama2_spag_1",
    "experiment=maft/phi3_arithmetic_maft",
)


@pytest.mark.slow
@pytest.mark.parametrize("words", EXPERIMENTS)
def test_every_algorithm_has_a_schedule_and_a_choice_of_optimisers(words: str) -> None:
    own = parsed(*words.split()).algorithm
    assert (own.schedule, own.warmup, own.final_share, own.optimizer) == ("constant", 0, 0, "adamw")
    chosen = ("schedule=linear", "warmup=0.1", "final_share=0.2", "optimizer=adamw_8bit")
    words += " hardware=gpu1"
    own = parsed(*words.split(), *(f"algorithm.{word}" for word in chosen)).algorithm
    assert (own.schedule, own.warmup, own.final_share) == ("linear", 0.1, 0.2)
    assert own.optimizer == "adamw_8bit"


def test_eight_bit_moments_step_on_the_gpu() -> None:
    needed = r"^algorithm\.optimizer=adamw_8bit: needs hardware\.offload_optimizer=false, got true$"
    with pytest.raises(ConfigError, match=needed):
        parsed("algorithm.optimizer=adamw_8bit", "hardware=gpu8_zero3_offload")
