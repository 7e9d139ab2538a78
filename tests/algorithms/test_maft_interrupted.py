"""Multiagent Finetuning that was stopped, and goes on as if it had not been."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cory.algorithms.maft_data import DebateCollector
from cory.config import Config
from cory.episode import Episode, Metrics, Prompt
from cory.rollout.scheduler import Play, RollOut
from cory.runs import signals
from cory.runs.checkpoint import Checkpoints
from cory.runs.recorder import Recorder
from cory.runs.signals import Stopped
from cory.runtime.loop import Loop
from cory.trainers.supervised import CollectedExamples
from tests.support.agents import build_agents, sums
from tests.support.composing import ConfigOf

pytestmark = pytest.mark.slow


class Last(Recorder):
    """Keeps the metrics of the last iteration, and writes nothing."""

    def __init__(self, config: Config) -> None:
        super().__init__(Path(config.run_dir), config)
        self.writes = False

    def log(self, iteration: int, metrics: Metrics) -> None:
        self.metrics = {key: value for key, value in metrics.items() if "time/" not in key}


def looped(config: Config, stops: Callable[[], bool]) -> list[Any]:
    """What a run ends with, which goes on where one of before was left. stops: asked when due."""
    config = config.replace(evaluation=config.evaluation.replace(before=False))
    path = Path(config.run_dir)
    path.mkdir(exist_ok=True)
    trainer = build_agents(config)
    checkpoints, record = Checkpoints(path, "settings", config.hardware, 2), Last(config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signals, "stopping", stops)
        reward: Any = SimpleNamespace(at=lambda done: None, metrics=dict)
        Loop(trainer, config, record, checkpoints, lambda done: None, reward, None).run()
    return [sums(trainer), trainer.episodes, list(record.metrics.items())]


def test_debates_are_left_after_a_batch_and_batches_change_nothing(
    maft: ConfigOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ["hardware.rollout_batch_size=5", "hardware.generation_batch_size=3"]
    trainer = build_agents(maft(*settings))
    assert isinstance(trainer.collect, DebateCollector)
    roll_out, held = RollOut.__call__, []

    def count(self: RollOut, play: Play, prompts: list[Prompt]) -> list[Episode]:
        held.append(len(prompts))
        return roll_out(self, play, prompts)

    monkeypatch.setattr(RollOut, "__call__", count)
    collected = trainer.collect(0)
    assert held == [3, 3, 3, 1]
    assert collected.examples == build_agents(maft()).collect(0).examples
    monkeypatch.setattr(signals, "stopping", lambda: True)
    with pytest.raises(Stopped, match="saved before iteration 1, whose debates begin again"):
        trainer.collect(0)


def test_a_stop_while_debates_are_held_loses_no_iteration_before_them(
    maft: ConfigOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect, asked = DebateCollector.__call__, []

    def second(self: DebateCollector, iteration: int) -> CollectedExamples:
        asked.append(iteration)
        return collect(self, iteration)

    monkeypatch.setattr(DebateCollector, "__call__", second)

    def run(folder: str, stops: Callable[[], bool]) -> list[Any]:
        place = f"run_dir={tmp_path / folder}"
        words = ("evaluation.prompts=2", "algorithm.iterations=2", "checkpoint_every=0")
        few = ("hardware.rollout_batch_size=5", "hardware.generation_batch_size=3")
        return looped(maft(place, *words, *few), stops)

    with pytest.raises(Stopped, match="before iteration 2, whose debates begin again"):
        run("cut", lambda: asked == [0, 1])
    assert [path.name for path in (tmp_path / "cut" / "checkpoints").iterdir()] == ["000001"]
    assert run("cut", lambda: False) == run("whole", lambda: False)
