"""Nothing is lost: killed, stopped, out of disk, diverged, ended by a user's function."""

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scripts import kill_test
from tests.support.commands import FAILS_ONCE, files_of, last_wins, metrics
from tests.support.warm import WarmCommand

pytestmark = pytest.mark.slow

Run = Callable[..., WarmCommand]
ON_THE_QUICKSTART = ("cory", "maporl")  # its model and prompts


class Killed(WarmCommand):
    """A command as scripts/kill_test.py asks of it."""

    @property
    def returncode(self) -> int | None:
        return self.poll()


FOUR = "algorithm.iterations=4"
# what makes a run of a layout shorter than the script has it
SHORTER = {
    "cory copies x2 ZeRO-3": [FOUR],
    "maporl adapters x2 ZeRO-2": [FOUR],
    "spag copies x1 ZeRO-0": [
        *(FOUR, "algorithm.iterations_per_epoch=2", "algorithm.opponents.scripted=null"),
        *("task.max_turns=2", "evaluation.samples=1"),
        *(f"algorithm.sampling.{end}_response_tokens=8" for end in ("min", "max")),
    ],
    "maft copies x1 ZeRO-3": [
        *("algorithm.iterations=2", "algorithm.agents=2", "algorithm.evaluation_agents=2"),
        "evaluation.prompts=2",
    ],
}
AS_USERS = "cory copies x2 ZeRO-3"  # what is killed has been started as users start it


@pytest.mark.parametrize("layout", SHORTER)
def test_a_killed_run_ends_as_if_it_had_not_been(
    layout: str, short: list[str], tmp_path: Path, monkeypatch, capsys
) -> None:
    """The short form of scripts/kill_test.py."""
    started: dict[Path, Killed] = {}
    as_users = [kill_test.start] if layout == AS_USERS else []

    def start(row: kill_test.Layout, run_dir: Path, extra: list[str]) -> Any:
        if run_dir.name == "killed" and as_users:
            return as_users.pop()(row, run_dir, extra)
        started[run_dir] = Killed(tmp_path, row.command(run_dir, extra)[3:])
        return started[run_dir]

    def said(run_dir: Path) -> str:
        return started[run_dir].out + started[run_dir].err

    monkeypatch.setattr(kill_test, "start", start)
    monkeypatch.setattr(kill_test, "said", said)
    # the others run small forms of papers' experiments, which have all they need
    own = ("algorithm", "evaluation.prompts")  # which the script has itself
    settings = [word for word in short if not word.startswith(own)]
    settings = settings if layout.split()[0] in ON_THE_QUICKSTART else []
    words = ["kill_test.py", "--kills", "1", "--seed", "21"]  # soon after the first iteration
    words += ["--layouts", layout, "--settings", *settings, *SHORTER[layout]]
    monkeypatch.setattr(sys, "argv", words)
    assert kill_test.main() == 0
    assert "1 of 1 kills left the same" in capsys.readouterr().out


def test_a_full_disk_stops_the_run_with_one_line_and_it_goes_on_later(run, tmp_path, short) -> None:
    whole = run("run_dir=whole", "algorithm.iterations=6", "checkpoint_every=1")
    assert whole.wait() == 0, whole.err
    base = [*short, "algorithm.iterations=6"]
    # the first iteration has room
    for stream, limit, every in (("checkpoint", 60_000, 1), ("metrics", 6_000, 0)):
        words = [*base, f"checkpoint_every={every}", f"run_dir={stream}"]
        full = WarmCommand(tmp_path, last_wins(words), largest_file=limit)
        assert full.wait() == 1, full.err
        (error,) = full.err.splitlines()
        assert error.startswith("error:") and stream in error, error
        again = run(f"run_dir={stream}", "algorithm.iterations=6", "checkpoint_every=1")
        assert again.wait() == 0, again.err
        assert (tmp_path / stream / "metrics.jsonl").read_bytes() == (
            tmp_path / "whole" / "metrics.jsonl"
        ).read_bytes()


def test_divergence_leaves_metrics_and_the_checkpoint_before_it(run: Run, tmp_path: Path) -> None:
    once = ("algorithm.epochs=1", "algorithm.minibatch_size=8", "algorithm.learning_rate=1e30")
    command = run("run_dir=x", "checkpoint_every=1", "algorithm.iterations=5", *once)
    assert command.wait() == 1
    (error,) = command.err.splitlines()
    last = metrics(tmp_path / "x")[-1]
    stopped = last["iteration"]
    assert math.isnan(last["objective/kl/agent_0"]) and stopped > 0
    assert error.startswith(f"error: iteration {stopped + 1}: objective/kl/agent_0 is not finite")
    assert error.endswith(f"the last good one is x/checkpoints/{stopped:06d}")
    assert (tmp_path / "x" / "checkpoints" / f"{stopped:06d}" / "manifest.json").exists()
    assert not (tmp_path / "x" / "record.json").exists()


# An evaluation after every second iteration, and all that one changes beside weights and Adam.
EVEN = (
    *("evaluate_every=2", "samples_every=2", "checkpoint_every=1", "hardware.microbatch_size=2"),
    *("algorithm=cory", "algorithm.swap_every=3", "algorithm.score_scaling=normalise"),
    *("algorithm.kl_controller=adaptive", "algorithm.minibatch_size=4"),
    *("reward=python", "reward.function=mine.py:score"),
)
# Roll-outs that draw prompts again.
AGAIN = (
    *("evaluate_every=2", "samples_every=2", "checkpoint_every=1"),
    *("algorithm=team", "algorithm.agents=[one,two]"),
    *("algorithm.play=mine.py:play", "advantages=at_grpo", "algorithm.samples_per_prompt=2"),
    *("algorithm.resample_equal_groups=2", "algorithm.minibatch_size=4"),
    "algorithm.credit=counterfactual",
)
PAIR = (
    *(*EVEN, "members.agent_1.model.path=asset:tiny_2x", "members.agent_1.learning_rate=1e-3"),
    *("members.agent_1.sampling.min_response_tokens=2", "members.agent_0.kl_coef=0.1"),
)


@pytest.mark.parametrize("words", [EVEN, AGAIN, PAIR], ids=["cory", "drawn again", "pair"])
def test_a_run_that_failed_ends_as_if_it_had_not(short, tmp_path, words: tuple[str, ...]) -> None:
    own = [*short, *words, "algorithm.iterations=4"]
    if "reward=python" in words:
        own = [word for word in own if not word.startswith("reward.path=")]

    def run(run_dir: str) -> WarmCommand:
        return WarmCommand(tmp_path, last_wins([*own, f"run_dir={run_dir}"]))

    (tmp_path / "mine.py").write_text(FAILS_ONCE)
    whole = run("whole")
    assert whole.wait() == 0, whole.err
    drawn = [line.get("rollout/prompts_redrawn", 1) for line in metrics(tmp_path / "whole")]
    assert drawn[0] and drawn[-1]  # before and after the failure
    (tmp_path / "fails").touch()
    failed = run("x")
    assert failed.wait() == 1 and "it fails once" in failed.err
    assert (tmp_path / "x" / "checkpoints" / "000002").is_dir()
    assert len(metrics(tmp_path / "x")) == 1
    again = run("x")
    assert again.wait() == 0, again.err
    assert "goes on with the run in x" in again.out
    for name in ("metrics.jsonl", "samples.jsonl"):
        assert (tmp_path / "x" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert files_of(tmp_path / "x/agents") == files_of(tmp_path / "whole/agents")
    assert not (tmp_path / "x" / "checkpoints").exists()
    once_more = run("x")
    assert once_more.wait() == 0 and "is complete" in once_more.out
