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
    ("metrics", "said"),
    [
        ({"objective/score/agent_0": 0.5, "objective/score/agent_1": -1.0,
          "objective/kl/agent_0": 0.25, "time/update_s": 3.0},
         "reward 0.50 -1.00 | kl 0.25"),
        ({f"supervised/loss/{name}_{n}": 0.5 + n for name in ("generation", "critic")
          for n in (0, 1)} | {"debate/right/turn_1": 0.25, "debate/right/turn_2": 0.5},
         "mean loss 1.00 | accuracy by turn 0.25 0.50"),
        ({"verifier/loss": 0.7, "verifier/accuracy": 0.55}, "loss 0.70 | accuracy 0.55"),
        ({"offline/loss/agent_0": 2.0, "eval/win_rate/scripted": 0.4, "eval/win_rate/itself": 0.5,
          "eval/win_rate_attacker/scripted": 0.9}, "loss 2.00 | win rate 0.40"),
        ({}, ""),
    ],
)  # fmt: skip
def test_what_it_says(metrics: dict[str, float], said: str) -> None:
    assert progress(metrics) == said


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
            print("no end", end="")
    assert sys.stdout is shown and sys.stderr is errors
    lines = shown.getvalue().replace("\r", "\n").splitlines()
    assert "the user's own words" in lines and "no end" in lines
    assert not any("BAR" in line and ("words" in line or "no end" in line) for line in lines)
    assert errors.getvalue() == "a note\n"
    assert bar_stream() is shown
