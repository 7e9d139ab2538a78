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
