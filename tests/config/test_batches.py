"""Rules for batches, and for a KL controller that could pay for KL."""

from __future__ import annotations

import pytest

from cory.config import ConfigError, parse_config
from tests.support.composing import compose_config


@pytest.mark.parametrize(("method", "turns"), [("ppo", 64), ("cory", 64), ("maporl", 2 * 64)])
def test_a_kl_controller_that_could_pay_for_kl_is_refused(method: str, turns: int) -> None:
    """A step takes 0.2 * turns / horizon of the coefficient away at most: all of it at a fifth."""
    words = [f"algorithm={method}", "algorithm.guards.min_tokens=null"][: 1 + (method == "maporl")]
    size = ["algorithm.prompts_per_iteration=64", "algorithm.minibatch_size=64"]

    def parse(horizon: int, controller: str) -> None:
        parse_config(
            compose_config(
                *(*words, *size, f"algorithm.kl_controller={controller}"),
                f"algorithm.kl_horizon={horizon}",
            )
        )

    parse(turns // 5 + 1, "adaptive")
    with pytest.raises(
        ConfigError, match=f"={turns // 5}: must be above a fifth of the {turns} turns"
    ):
        parse(turns // 5, "adaptive")
    parse(turns // 5, "fixed")


@pytest.mark.parametrize(
    ("prompts", "minibatch", "microbatch", "said"),
    [
        (256, 100, 64, "algorithm.prompts_per_iteration=256: must be a multiple of "
         "algorithm.minibatch_size=100"),
        (64, 128, 64, "algorithm.prompts_per_iteration=64: must be a multiple of"),
        (96, 96, 64, "algorithm.minibatch_size=96: must be a multiple of "
         "hardware.microbatch_size=64"),
        (96, 48, 64, None),  # a microbatch is never larger than its minibatch
    ],
)  # fmt: skip
def test_batches_that_leave_a_rest_are_refused(
    prompts: int, minibatch: int, microbatch: int, said: str | None
) -> None:
    cfg = compose_config(
        f"algorithm.prompts_per_iteration={prompts}",
        f"algorithm.minibatch_size={minibatch}",
        f"hardware.microbatch_size={microbatch}",
    )
    if said is None:
        parse_config(cfg)
        return
    with pytest.raises(ConfigError) as refusal:
        parse_config(cfg)
    assert said in str(refusal.value)
