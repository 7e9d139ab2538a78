"""Cross-play: cells of the matrix are evaluations of mixed teams; means and intervals by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import transformers

from cory.report.compare import play_across
from cory.report.cross_play import cross_play, summary, summary_text
from tests.support.building import build, leave_run, measure
from tests.support.composing import ConfigOf, parsed
from tests.support.refusals import refusal

PLAY = """
async def play(prompt, team):
    first = await team.one.say(prompt.text)
    second = await team.two.say(first.text or "nothing")
    return {"one": len(first.text) + 10.0 * team.iteration, "two": float("e" in second.text)}
"""
RATE = "algorithm.learning_rate=1e-2"
LAST = "algorithm.iterations=4"  # `measure` is after the fourth


def test_a_cell_is_the_evaluation_of_a_mixed_team(team: ConfigOf, tmp_path: Path, capfd) -> None:
    """Rows: whose agent one it is; columns: whose agent two."""
    trainers, run_dirs = [], [tmp_path / "a", tmp_path / "b"]
    for seed, run_dir in enumerate(run_dirs):
        config = team(PLAY, RATE, LAST, f"seed={seed}", f"run_dir={run_dir}")
        trainers.append(build(config))
        trainers[-1].step(0)
        leave_run(trainers[-1].agents, config, run_dir)
    transformers.logging.enable_progress_bar()
    scores = cross_play(run_dirs)
    assert "Loading weights" not in capfd.readouterr().err
    config = team(PLAY, RATE, LAST, "seed=0")
    for row, own in enumerate(trainers):
        for column, others in enumerate(trainers):
            actors: Any = {"one": own.actors["one"], "two": others.actors["two"]}
            trainers[0].evaluate = replace(trainers[0].evaluate, actors=actors)  # type: ignore[type-var]
            found, _ = measure(trainers[0], config, tmp_path)
            assert scores.iat[row, column] == pytest.approx(found["eval/score/team"], abs=1e-6)
    assert scores.to_numpy().ravel().tolist() != [scores.iat[0, 0]] * 4
    assert (scores.index.name, [*scores.columns]) == ("one", ["seed 0", "seed 1"])
    play_across(run_dirs, tmp_path / "scores.json", tmp_path / "scores.png")
    stored = json.loads((tmp_path / "scores.json").read_text())
    assert stored["data"] == scores.to_numpy().tolist()
    crossed = (scores.iat[0, 1] + scores.iat[1, 0]) / 2
    assert stored["cross-play"] == [pytest.approx(crossed), None, None]  # of two runs the same
    assert (tmp_path / "scores.png").stat().st_size > 5_000
    said = refusal(lambda: cross_play(run_dirs[:1]))
    assert said == "cross-play needs runs that differ in their seed alone, got imdb_team"


def test_a_reward_that_follows_the_run_is_as_at_its_end(team: ConfigOf, tmp_path: Path) -> None:
    (tmp_path / "r.py").write_text(
        "def score(completions, trainer_state, **columns):\n"
        "    return [float(trainer_state.global_step)] * len(completions)\n"
    )
    reward = parsed("reward=python", f"reward.function={tmp_path}/r.py:score").reward
    run_dirs = [tmp_path / "a", tmp_path / "b"]
    for seed, run_dir in enumerate(run_dirs):
        config = team(PLAY.partition("    return")[0], LAST, f"seed={seed}", f"run_dir={run_dir}")
        leave_run(build(config).agents, config.replace(reward=reward), run_dir)
    assert cross_play(run_dirs).to_numpy().tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_self_play_and_cross_play_by_hand() -> None:
    names = [f"seed {seed}" for seed in range(3)]
    values = [[0.9, 0.1, 0.2], [0.3, 0.8, 0.4], [0.5, 0.6, 0.7]]
    scores = pd.DataFrame(values, index=pd.Index(names, name="sender"), columns=names)
    found = summary(scores)
    # of the first run (0.1 + 0.2 + 0.3 + 0.5) / 4: its row and its column without the diagonal
    crossed = [0.275, 0.35, 0.425]
    gaps = [-0.625, -0.45, -0.275]
    assert found["self-play"][0] == pytest.approx(0.8)
    for name, each, spread in (("cross-play", crossed, 0.075), ("difference", gaps, 0.175)):
        middle, half = sum(each) / 3, 2.919986 * spread / math.sqrt(3)
        expected = (middle, middle - half, middle + half)
        assert found[name] == pytest.approx(expected, abs=1e-6)
    *_, last = summary_text(scores).splitlines()
    assert last == "difference: -0.450 (90 % interval -0.745 to -0.155)"
