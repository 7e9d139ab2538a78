"""The agents of the best iteration stay in best/, also where the run is killed and goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cory.config import ConfigError
from cory.runs.checkpoint import BestAgents
from cory.runtime.loop import check_names
from cory.runtime.refusals import refusals
from tests.support.commands import metrics
from tests.support.composing import parsed
from tests.support.warm import WarmCommand

METRIC = "objective/score/agent_0"
SCORES = [0.1, 0.5, 0.3, 0.5, 0.9, 0.2]


def best_of(folder: Path) -> dict[str, Any]:
    """What best.json in a folder says."""
    return dict(json.loads((folder / "best.json").read_text()))


class Run:
    """A run whose agents are a text: the number of iterations that they are of."""

    def __init__(self, run_dir: Path, metric: str = METRIC, mode: str = "max") -> None:
        self.run_dir = run_dir
        self.best = BestAgents(run_dir, metric, mode, self.export)
        self.exported: list[int] = []

    def export(self, folder: Path, done: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "agents").write_text(str(done))
        self.exported.append(done)

    def iterate(self, start: int, scores: list[float]) -> None:
        self.best.start(start)
        for iteration, score in enumerate(scores, start):
            self.best.offer(iteration, {METRIC: score, "time/update_s": 1.0})

    def kept(self, folder: str = "best") -> int:
        """The iterations of the agents in a folder, which has to say the same."""
        done = best_of(self.run_dir / folder)["iteration"] + 1
        assert (self.run_dir / folder / "agents").read_text() == str(done)
        return done


@pytest.mark.parametrize(("mode", "expected", "exported"), [("max", 5, [1, 2, 5]), ("min", 1, [1])])
def test_the_best_stay(tmp_path: Path, mode: str, expected: int, exported: list[int]) -> None:
    """The first of equal ones."""
    run = Run(tmp_path, mode=mode)
    run.iterate(0, SCORES)
    assert run.kept() == expected and run.exported == exported
    assert json.loads((tmp_path / "best/best.json").read_text()) == {
        "metric": METRIC, "mode": mode, "value": SCORES[expected - 1], "iteration": expected - 1
    }  # fmt: skip
    run.best.finish()
    assert [path.name for path in tmp_path.iterdir()] == ["best"]


@pytest.mark.parametrize("saved", [0, 1, 2, 3, 4, 5])
def test_a_run_that_repeats_iterations_ends_with_the_same_agents(
    tmp_path: Path, saved: int
) -> None:
    """Killed after five iterations, it goes on after those of the newest checkpoint."""
    Run(tmp_path).iterate(0, SCORES[:5])
    again = Run(tmp_path)
    again.iterate(saved, SCORES[saved:])
    whole = Run(tmp_path / "whole")
    whole.iterate(0, SCORES)
    assert again.kept() == whole.kept()


def test_a_kill_while_agents_are_written_loses_nothing(tmp_path: Path) -> None:
    """The run goes on before the iteration at which it was killed, and offers it again."""
    run = Run(tmp_path)
    run.iterate(0, [0.2, 0.1])
    run.best.export = lambda folder, done: exec("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        run.best.offer(2, {METRIC: 0.5})
    assert not (tmp_path / "best/best.json").exists()  # it would be about other agents
    again = Run(tmp_path)
    again.iterate(1, [0.1, 0.5, 0.3])
    assert again.kept() == 3


@pytest.mark.parametrize("key", ["keep_best", "objective"])
def test_a_metric_that_no_evaluation_has_is_refused_with_the_nearest(
    key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = parsed(f"{key}=eval/score/agent_1", "evaluate_every=1")
    check_names(config, 0, {METRIC: 0.5})  # not evaluated yet
    check_names(config, 0, {"eval/score/agent_1": 0.5})
    with pytest.raises(ConfigError, match=rf"{key}=.* did you mean eval/score/agent_0"):
        check_names(config, 0, {METRIC: 0.5, "eval/score/agent_0": 0.5})
    config = parsed(f"{key}=objective/scor/agent_0")
    for iteration in (0, 1):  # it may come later, and is noted once
        check_names(config, iteration, {METRIC: 0.5})
    said = f"note: {key}=objective/scor/agent_0 is no metric of the first iteration; did you mean"
    assert capsys.readouterr().err == f"{said} {METRIC}?\n"


def test_iterations_without_the_metric_are_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A critic without an example in the first iteration has no loss in it."""
    run = Run(tmp_path, metric="supervised/loss/critic_0", mode="min")
    run.best.start(0)
    run.best.offer(0, {"supervised/examples/critic_0": 0.0, "eval/vote/turn_1": 0.5})
    run.best.finish()
    assert "no iteration had a finite keep_best=supervised/loss/critic_0" in capsys.readouterr().out
    run.best.offer(1, {"supervised/loss/critic_0": 0.5})
    run.best.offer(2, {"supervised/examples/critic_0": 0.0})
    assert run.kept() == 2


def test_an_evaluation_that_is_never_made_is_refused() -> None:
    (said,) = refusals(parsed("keep_best=eval/score/agent_0"))
    assert "needs evaluate_every above 0" in said


def test_a_model_behind_an_endpoint_has_no_best_agents() -> None:
    words = ["experiment=maft/gpt35_arithmetic_base", "evaluate_every=1"]
    said = refusals(parsed(*words, "keep_best=eval/vote/turn_1"))
    assert any("keep_best=eval/vote/turn_1 needs agents" in line for line in said)


@pytest.mark.slow
def test_a_run_keeps_the_agents_that_it_had(
    run: Callable[..., WarmCommand], tmp_path: Path
) -> None:
    """They are those that export_every writes after the same iteration."""
    command = run(
        *("run_dir=x", "algorithm.iterations=4", "evaluate_every=1", "export_every=1"),
        *("keep_best=eval/score/agent_0", "algorithm.learning_rate=0.01"),
    )
    assert command.wait() == 0, command.err
    scores = [line["eval/score/agent_0"] for line in metrics(tmp_path / "x")]
    best = best_of(tmp_path / "x/best")
    assert best["value"] == max(scores) == scores[best["iteration"]]
    assert len(set(scores)) > 1
    done = best["iteration"] + 1
    assert f"after iteration {done}" in command.out
    there = tmp_path / "x" / (f"iterations/{done}/agents" if done < 4 else "agents")
    for file in there.rglob("*.safetensors"):
        own = tmp_path / "x/best/agents" / file.relative_to(there)
        assert own.read_bytes() == file.read_bytes()
    card = (tmp_path / "x/best/agents/agent_0/README.md").read_text()
    assert f"{done} iterations of 8 prompts" in card
