"""Metrics as runs of multiagent fine-tuning leave them, with made-up numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from cory.report.pages.write import Places
from tests.support.reporting import CONF

METRICS = """\
| name | meaning |
|---|---|
| `eval/vote` | x |
| `eval/vote_se` | x |
| `eval/single` | x |
| `eval/right` | x |
| `eval/consensus_diversity` | x |
| `eval/dissimilarity` | x |
| `eval/kl_diversity` | x |
| `debate/pseudo_right` | x |
| `debate/right` | x |
"""
PROBLEMS = 500


def evaluated(
    single: float, first: float, last: float, seed: int = 0, dissimilarity: float = 0.1
) -> dict[str, float]:
    """An evaluation: the first answer alone, and the vote after each of two turns."""
    line = {}
    for name, share in (("single/turn_1", single), ("vote/turn_1", first), ("vote/turn_2", last)):
        kind, turn = name.split("/")
        value = share + (seed - 1) / 500  # the mean of seeds 0, 1 and 2 is as given
        line[f"eval/{name}"] = value
        line[f"eval/{kind}_se/{turn}"] = math.sqrt(value * (1 - value) / PROBLEMS)
    return line | {
        "eval/consensus_diversity/turn_1": 0.3 - dissimilarity,
        "eval/consensus_diversity/turn_2": 0.2 - dissimilarity,
        "eval/dissimilarity/turn_2": dissimilarity,
        "eval/kl_diversity/turn_2": 10 * dissimilarity,
        "eval/right/turn_1": single + (seed - 1) / 400,  # of all agents' first answers
    }


def untrained(single: float, first: float, last: float, seed: int) -> list[dict[str, float]]:
    """The one line of a run that only evaluates."""
    return [{"iteration": 0} | evaluated(single, first, last, seed)]


def fine_tuned(
    accuracies: Sequence[float], seed: int, dissimilarities: Sequence[float] = ()
) -> list[dict[str, float]]:
    """A run that is evaluated after each iteration: accuracy after the debate, and diversity."""
    return [
        {
            "iteration": iteration,
            "debate/pseudo_right/team": last,
            "debate/right/turn_1": last - 0.1,
        }
        | evaluated(last - 0.1, last - 0.05, last, seed, dissimilarity)
        for iteration, (last, dissimilarity) in enumerate(
            zip(accuracies, dissimilarities or [0.1] * len(accuracies), strict=True)
        )
    ]


def maft_places(folder: Path) -> Places:
    """The real conf/, with metrics as defined above."""
    metrics = folder / "metrics.md"
    metrics.write_text(METRICS)
    return Places(CONF, folder / "docs", metrics)
