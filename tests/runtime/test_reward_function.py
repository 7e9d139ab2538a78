"""A run whose reward function fails stops with its checkpoint, and goes on once it is mended."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.commands import last_wins, metrics
from tests.support.warm import WarmCommand

Run = Callable[..., WarmCommand]

GOOD = """
import os

def score(completions, trainer_state, log_metric, **kwargs):
    with open("calls", "a") as file:
        file.write(os.environ.get("RANK", "0"))
    log_metric("step", trainer_state.global_step)
    return [len(text) / 10 + trainer_state.global_step for text in completions]
"""
BAD = GOOD.replace(
    "    log_metric", "    if trainer_state.global_step == 2: raise KeyError('x')\n    log_metric"
)


@pytest.fixture
def run(short: list[str], tmp_path: Path) -> Run:
    """Runs the command to its end, with the function of `mine.py` and checkpoints at every step."""
    base = [word for word in short if not word.startswith("reward.path")]
    own = ("reward=python", "reward.function=mine.py:score", "checkpoint_every=1")

    def call(*words: str) -> WarmCommand:
        command = WarmCommand(tmp_path, last_wins([*base, *own, "algorithm.iterations=4", *words]))
        command.wait()
        return command

    return call


@pytest.mark.slow
def test_a_function_that_raises_at_the_third_call_can_be_mended(run: Run, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(GOOD)
    assert run("run_dir=whole", "hardware=cpu2").wait() == 0
    # an evaluation, four iterations and an evaluation, each by one process alone
    assert (tmp_path / "calls").read_text() == "0" * 6
    mine.write_text(BAD)
    stopped = run("run_dir=cut", "hardware=cpu2")
    assert stopped.wait() == 1
    (error,) = stopped.err.splitlines()
    assert error == f"error: reward.function=mine.py:score: {mine}, line 7: KeyError: 'x'"
    assert len(metrics(tmp_path / "cut")) == 2
    mine.write_text(GOOD)
    again = run("run_dir=cut", "hardware=cpu2")
    assert again.wait() == 0, again.err
    for file in ("metrics.jsonl", "agents/agent_0/model.safetensors"):
        assert (tmp_path / "cut" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
    last = metrics(tmp_path / "cut")[-1]
    assert last["reward/logged/step"] == 3 and last["eval/score/agent_0"] > 4
    times = json.loads((tmp_path / "cut" / "times.jsonl").read_text().splitlines()[-1])
    assert times["time/reward_call_s"] > 0 and times["time/eval_reward_call_s"] > 0
