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
from cory.runs.files import read_lines
from cory.runs.stop import StopPoint, StopRequest
from cory.runtime.loop import Loop
from cory.runtime.summary import before_after
from cory.trainers.divergence import TrainingDiverged
from tests.support.commands import last_wins, metrics, short_settings
from tests.support.composing import parsed
from tests.support.warm import WarmCommand

ConfigOf = Callable[..., Config]


def lines_of(run_dir: Path, kind: str) -> list[dict[str, object]]:
    return [line for line in read_lines(run_dir / "samples.jsonl") if line["kind"] == kind]


def test_an_iteration_that_diverges_is_logged_with_what_was_measured_before_it(
    config_of: ConfigOf, tmp_path: Path
) -> None:
    logged: list[Metrics] = []

    class Diverges:
        def state_dict(self) -> dict[str, object]:
            return {}

        def step(self, iteration: int, stop_point: StopPoint) -> Metrics:
            raise TrainingDiverged(iteration, "no loss", {"loss": 1.0})

    def log(iteration: int, metrics: Metrics) -> None:
        logged.append(metrics)

    algorithm: Any = Diverges()
    record: Any = SimpleNamespace(log=log)
    config = config_of("algorithm=ppo")
    checkpoints = Checkpoints(tmp_path, "settings", config.hardware, 2)
    reward: Any = SimpleNamespace(at=lambda iteration: None, metrics=lambda: {"reward/own": 2.0})
    stop = StopRequest()
    loop = Loop(algorithm, config, record, checkpoints, stop, lambda done: None, reward)
    with pytest.raises(TrainingDiverged, match="there is none before it"):
        loop._iterate(0, {"before/score/agent_0": 0.5}, None)
    assert logged == [{"before/score/agent_0": 0.5, "loss": 1.0, "reward/own": 2.0}]


@pytest.mark.slow
def test_a_run_ends_with_what_training_changed(
    tiny_model: str, tiny_judge: str, reviews_file: Path, tmp_path: Path
) -> None:
    run_dir = tmp_path / "run"
    base = short_settings(tiny_model, tiny_judge, reviews_file)
    command = WarmCommand(tmp_path, last_wins([*base, "algorithm=cory", f"run_dir={run_dir}"]))
    assert command.wait() == 0, command.err
    before, *_, after = read_lines(run_dir / "prompt_scores.jsonl")
    assert (before["iteration"], after["iteration"]) == (-1, 1)
    assert before["prompts"] == after["prompts"] and len(before["prompts"]) == 8
    # the values are those of the responses that samples.jsonl keeps
    asked = lines_of(run_dir, "before")
    assert {line["iteration"] for line in asked} == {-1}
    for agent in ("agent_0", "agent_1"):
        own = [line for line in asked if line["who"] == agent]
        scores = [line["turns"][0]["score"] for line in own]  # type: ignore[index]
        assert before["values"][f"eval/score/{agent}"] == scores
    first, *_, last = metrics(run_dir)
    assert first["before/score/agent_1"] == pytest.approx(sum(scores) / 8)
    assert "before/score/agent_1" not in last
    table = before_after(run_dir)
    assert list(table.index) == [
        f"{name}/agent_{n}"
        for name in ("eval/score", "objective/kl", "objective/combined")
        for n in (0, 1)
    ]
    row = table.loc["eval/score/agent_1"]
    assert row["after"] == pytest.approx(last["eval/score/agent_1"])
    assert row["before"] == first["before/score/agent_1"] and row["prompts"] == 8
    assert row["low"] < row["change"] < row["high"]
    assert "held-out reward, agent 1" in command.out


def test_where_there_is_none() -> None:
    for word in ("evaluation.before=false", "algorithm.iterations=0"):
        assert parsed().evaluates_before and not parsed(word).evaluates_before
    games = ("experiment=spag/llama2_im", "scale=small", "evaluation.before=true")
    assert parsed(*games).evaluates_before
    collecting = ("algorithm.collect_only=true", "algorithm.iterations=1")
    words = (*games, *collecting, "algorithm.iterations_per_epoch=null")
    assert not parsed(*words).evaluates_before
