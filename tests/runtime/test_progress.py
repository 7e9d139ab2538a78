"""What the progress bar says of each kind of run, and that prints stand above it."""

from __future__ import annotations

import io
import sys

import pytest
from tqdm import tqdm

from cory.runtime.progress import above_bars, bar_stream, progress

PPO = {
    f"objective/{name}/agent_{n}": value + n
    for n in (0, 1, 2)
    for name, value in {"score": 0.5, "kl": 1.25, "combined": 0.375}.items()
}


@pytest.mark.parametrize(
    ("metrics", "agents", "said"),
    [
        (PPO, ["agent_0"], "agent 0: reward +0.50 kl 1.25 combined +0.38"),
        (PPO | {"role/agent_0": 1.0, "role/agent_1": 0.0}, ["agent_0", "agent_1"],
         "agent 0: reward +0.50 kl 1.25 combined +0.38 | "
         "agent 1: reward +1.50 kl 2.25 combined +1.38"),
        (PPO | {"debate/right/turn_2": 0.5, "debate/right/turn_10": 0.75},
         ["agent_0", "agent_1", "agent_2"],
         "rewards +0.50 +1.50 +2.50 | accuracy by turn 0.50 0.75"),
        ({"supervised/loss/critic_0": 1.0, "supervised/loss/generation_0": 0.5,
          "debate/right/turn_1": 0.25}, ["generation_0", "critic_0"],
         "loss 0.750 | accuracy by turn 0.25"),
        ({"verifier/loss": 0.7, "verifier/accuracy": 0.55}, ["verifier"],
         "loss 0.700 | accuracy 0.55"),
        ({"offline/loss/agent_0": 2.0, "before/win_rate/scripted": 0.4,
          "eval/win_rate/itself": 0.5, "before/win_rate_attacker/scripted": 0.9}, ["agent_0"],
         "loss 2.000 | win rate against scripted 0.40"),
        ({"before/win_rate/scripted": 0.4, "eval/win_rate/scripted": 0.6}, ["agent_0"],
         "win rate against scripted 0.60"),
        ({}, ["agent_0"], ""),
    ],
)  # fmt: skip
def test_what_it_says(metrics: dict[str, float], agents: list[str], said: str) -> None:
    assert progress(metrics, agents) == said


def test_what_is_printed_stands_on_lines_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, errors = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setattr(sys, "stderr", errors)
    with above_bars():
        assert bar_stream() is shown
        with tqdm(total=3, file=bar_stream(), bar_format="BAR {n_fmt}", mininterval=0) as bar:
            print("the user's own", end=" ")
            bar.update()
            print("words")
            print("a note", file=sys.stderr)
            bar.update()
            with tqdm(total=2, file=bar_stream(), desc="LATER", delay=99):
                print("early")  # a bar that waits is not drawn for it
            print("no end", end="")
    assert sys.stdout is shown and sys.stderr is errors
    lines = shown.getvalue().replace("\r", "\n").splitlines()
    assert "the user's own words" in lines and "no end" in lines and "early" in lines
    assert not any("LATER" in line for line in lines)
    assert not any("BAR" in line and ("words" in line or "no end" in line) for line in lines)
    assert errors.getvalue() == "a note\n"
    assert bar_stream() is shown
