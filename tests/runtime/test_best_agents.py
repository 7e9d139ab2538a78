"""The agents of the best iteration stay in best/, also where the run is killed and goes on."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cory.config import ConfigError
from cory.runtime.loop import Loop, check_name
from tests.support.commands import metrics
from tests.support.composing import parsed

METRIC = "objective/score/agent_0"
SCORES = [0.1, 0.5, 0.3, 0.5, 0.9, 0.2]


class Run:
    """A run whose agents are the number of iterations that they are of."""

    def __init__(self, run_dir: Path, metric: str = METRIC, mode: str = "max") -> None:
        self.best, self.exported = run_dir / "best", []  # type: ignore[var-annotated]
        config: Any = parsed(f"keep_best={metric}", f"keep_best_mode={mode}", "evaluate_every=1")
        record: Any = SimpleNamespace(run_dir=run_dir)
        none: Any = None
        self.loop = Loop(none, config, record, none, self.export, none, None)

    def export(self, folder: Path, done: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "agents").write_text(str(done))
        self.exported.append(done)

    def iterate(self, start: int, scores: list[float], name: str = METRIC) -> None:
        config = self.loop.config
        for iteration, score in enumerate(scores, start):
            self.loop.pending = {name: score, "time/update_s": 1.0}
            self.loop._keep_best(iteration, str(config.keep_best), config.keep_best_mode)

    def kept(self) -> int:
        return int((self.best / "agents").read_text())


@pytest.mark.parametrize(("mode", "expected", "exported"), [("max", 5, [1, 2, 5]), ("min", 1, [1])])
def test_the_best_stay(tmp_path: Path, mode: str, expected: int, exported: list[int]) -> None:
    """The first of equal ones."""
    run = Run(tmp_path, mode=mode)
    run.iterate(0, SCORES)
    assert run.kept() == expected and run.exported == exported
    assert f"{SCORES[expected - 1]} after iteration {expected};" in run.loop.best_agents()


@pytest.mark.parametrize("saved", [0, 1, 2, 3, 4, 5])
def test_a_run_that_repeats_iterations_ends_with_the_same_agents(tmp_path, saved) -> None:
    """Killed after five iterations, it goes on after those of the newest checkpoint."""
    before = Run(tmp_path)
    before.iterate(0, SCORES[:saved])
    state = before.loop.best
    before.iterate(saved, SCORES[saved:5])
    again = Run(tmp_path)
    again.loop.best = state
    again.iterate(saved, SCORES[saved:])
    assert again.kept() == 5


def test_a_metric_that_no_evaluation_has_is_refused_with_the_nearest(capsys) -> None:
    name = "eval/score/agent_1"
    check_name(name, 0, {METRIC: 0.5})  # not evaluated yet
    check_name(name, 0, {name: 0.5})
    with pytest.raises(ConfigError, match=r"keep_best=.* did you mean eval/score/agent_0"):
        check_name(name, 0, {METRIC: 0.5, "eval/score/agent_0": 0.5})
    for iteration in (0, 1):  # it may come later, and is noted once
        check_name("objective/scor/agent_0", iteration, {METRIC: 0.5})
    said = (
        "note: keep_best=objective/scor/agent_0 is no metric of the first iteration; did you mean"
    )
    assert capsys.readouterr().err == f"{said} {METRIC}?\n"


def test_iterations_without_the_metric_are_passed_over(tmp_path: Path) -> None:
    """A critic without an example in the first iteration has no loss in it."""
    run = Run(tmp_path, metric="supervised/loss/critic_0", mode="min")
    run.iterate(0, [0.0], name="supervised/examples/critic_0")
    said = "no iteration had a finite keep_best=supervised/loss/critic_0"
    assert said in run.loop.best_agents()
    run.iterate(1, [0.5], name="supervised/loss/critic_0")
    run.iterate(2, [0.0], name="supervised/examples/critic_0")
    assert run.kept() == 2


@pytest.mark.slow
def test_a_run_keeps_the_agents_that_it_had(run, tmp_path) -> None:
    """They are those that export_every writes after the same iteration."""
    command = run(
        *("run_dir=x", "algorithm.iterations=4", "evaluate_every=1", "export_every=1"),
        *("keep_best=eval/score/agent_0", "algorithm.learning_rate=0.01"),
    )
    assert command.wait() == 0, command.err
    scores = [line["eval/score/agent_0"] for line in metrics(tmp_path / "x")]
    assert len(set(scores)) > 1
    done = scores.index(max(scores)) + 1
    assert f"{max(scores):.4g} after iteration {done};" in command.out
    there = tmp_path / "x" / (f"iterations/{done}/agents" if done < 4 else "agents")
    for file in there.rglob("*.safetensors"):
        own = tmp_path / "x/best/agents" / file.relative_to(there)
        assert own.read_bytes() == file.read_bytes()
    card = (tmp_path / "x/best/agents/agent_0/README.md").read_text()
    assert f"{done} iterations of 8 prompts" in card
