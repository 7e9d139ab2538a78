"""Metrics as runs of word games leave them, and benchmarks as records hold them, made up."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from cory.config import GEOMETRIC_MEAN
from cory.report.records.benchmarks import BENCHMARKS

ROLES = ("attacker", "defender")
METRICS = """\
| name | meaning |
|---|---|
| `eval/win_rate` | x |
| `eval/win_rate_<role>` | x |
| `eval/game_turns` | x |
| `benchmark/mmlu` | x |
"""
BY_SCALE = {
    "opponent": {"paper": "endpoint", "small": "scripted"},
    "player": {"paper": "GPT-4", "small": "the scripted players"},
}


def played(
    rates: Mapping[str, tuple[float, float]],
    seed: int = 0,
    roles: tuple[str, str] = ROLES,
    turns: float = 3.0,
    tokens: float = 20.0,
) -> list[dict[str, float]]:
    """The one line of an evaluated player.

    rates: opponent -> its win rate in the first role, and in the second
    """
    noise = random.Random(seed)
    line: dict[str, float] = {"iteration": 0}
    for opponent, own in rates.items():
        shifted = [rate + noise.gauss(0, 0.01) for rate in own]
        if opponent == "itself":  # what one role wins the other loses
            shifted[1] = 1 - shifted[0]
        for role, rate in zip(roles, shifted, strict=True):
            line[f"eval/win_rate_{role}/{opponent}"] = rate
            line[f"eval/win_rate_{role}_se/{opponent}"] = 0.03
            line[f"eval/wins_{role}/{opponent}"] = rate - 0.05
        line |= {
            f"eval/win_rate/{opponent}": sum(shifted) / 2,
            f"eval/win_rate_se/{opponent}": 0.02,
            f"eval/ties/{opponent}": 0.1,
            f"eval/solved/{opponent}": 0.0,
            f"eval/invalid/{opponent}": 0.04,
            f"eval/game_turns/{opponent}": turns + shifted[0] / 10,
            f"eval/game_turns_se/{opponent}": 0.1,
            f"eval/utterance_tokens/{opponent}": tokens + shifted[0],
            f"eval/utterance_tokens_se/{opponent}": 0.5,
            f"eval/empty_share/{opponent}": 0.01,
        }
    return [line]


def scored(mean: float) -> dict[str, Any]:
    """A record's benchmarks, all near a mean."""
    names = [*BENCHMARKS, GEOMETRIC_MEAN]
    scores = {
        name: {"value": mean + place / 100, "stderr": 0.005, "metric": "acc", "shots": 0}
        for place, name in enumerate(names)
    }
    return {"agent_0": scores | {GEOMETRIC_MEAN: scores[GEOMETRIC_MEAN] | {"value": mean}}}
