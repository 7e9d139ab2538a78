"""Settings of the optimiser: what is refused, and that every trainer has them."""

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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("algorithm.schedule=sine", r"algorithm\.schedule must be one of constant, linear, cos"),
        ("algorithm.warmup=1", r"algorithm\.warmup must lie in \[0, 1\), got 1"),
        ("algorithm.warmup=-0.1", r"algorithm\.warmup must lie in \[0, 1\), got -0\.1"),
        (
            "algorithm.schedule=cosine algorithm.final_share=1.5",
            r"algorithm\.final_share must lie in \[0, 1\], got 1\.5",
        ),
        (
            "algorithm.final_share=0.1",
            r"algorithm\.final_share=0\.1 needs algorithm\.schedule=linear or cosine",
        ),
        ("algorithm.optimizer=sgd", r"algorithm\.optimizer must be one of adamw, adamw_8bit"),
        (
            "algorithm.optimizer=adamw_8bit",
            r"algorithm\.optimizer=adamw_8bit needs a GPU: with hardware\.device=cpu it must be",
        ),
        (
            "algorithm.optimizer=adamw_8bit hardware=gpu8_zero3_offload",
            r"algorithm\.optimizer=adamw_8bit steps on the GPU: it needs hardware\.offload_opt",
        ),
    ],
)
def test_what_cannot_be_is_refused(words: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as error:
        parsed(*words.split())
    assert "\n" not in str(error.value)
