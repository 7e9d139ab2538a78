"""The evaluation before the training: in whole runs, killed, and where there is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cory.config import Config
from cory.episode import Metrics
from cory.runs.checkpoint import Checkpoints
from cory.runtime.loop import Loop
from cory.trainers.steps import TrainingDiverged
from tests.support.composing import parsed

ConfigOf = Callable[..., Config]


def test_an_iteration_that_diverges_is_logged_with_what_was_measured_before_it(
    config_of: ConfigOf, tmp_path: Path
) -> None:
    logged: list[Metrics] = []

    class Diverges:
        def state_dict(self) -> dict[str, object]:
            return {}

        def step(self, iteration: int) -> Metrics:
            raise TrainingDiverged(iteration, "no loss", {"loss": 1.0})

    def log(iteration: int, metrics: Metrics) -> None:
        logged.append(metrics)

    algorithm: Any = Diverges()
    record: Any = SimpleNamespace(log=log)
    config = config_of("algorithm=ppo")
    checkpoints = Checkpoints(tmp_path, "settings", config.hardware, 2)
    reward: Any = SimpleNamespace(at=lambda iteration: None, metrics=lambda: {"reward/own": 2.0})
    loop = Loop(algorithm, config, record, checkpoints, lambda done: None, reward)
    loop.pending = {"before/score/agent_0": 0.5}
    with pytest.raises(TrainingDiverged, match="there is none before it"):
        loop._iterate(0, trained=False)
    assert logged == [{"before/score/agent_0": 0.5, "loss": 1.0, "reward/own": 2.0}]


def test_where_there_is_none() -> None:
    for word in ("evaluation.before=false", "algorithm.iterations=0"):
        assert parsed().evaluates_before and not parsed(word).evaluates_before
    games = ("experiment=spag/llama2_im", "scale=small", "evaluation.before=true")
    assert parsed(*games).evaluates_before
    collecting = ("algorithm.collect_only=true", "algorithm.iterations=1")
    words = (*games, *collecting, "algorithm.iterations_per_epoch=null")
    assert not parsed(*words).evaluates_before
