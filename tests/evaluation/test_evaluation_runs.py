"""Evaluations in whole runs: killed, stopped, alone, and what users see of them."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from cory.runs.files import read_lines
from tests.support.commands import last_wins, metrics, short_settings, until
from tests.support.warm import WarmCommand

Words = Callable[..., list[str]]


@pytest.fixture
def slowly(tiny_model: str, tiny_judge: str, reviews_file: Path) -> Words:
    """A command line with evaluations that last some seconds, after every iteration."""
    slow = [
        "algorithm=cory",
        "evaluate_every=1",
        "evaluation.samples=6",
        "evaluation.team=true",
        "evaluation.probes=['the movie']",
        "hardware.rollout_batch_size=2",
        "samples_every=1",
    ]
    base = [*short_settings(tiny_model, tiny_judge, reviews_file), *slow]
    return lambda *words: last_wins([*base, *words])


def start(words: list[str], cwd: Path) -> WarmCommand:
    """What is to be killed or stopped."""
    return WarmCommand(cwd, words)


def finish(words: list[str], cwd: Path) -> WarmCommand:
    """What is left alone, to its end."""
    command = start(words, cwd)
    assert command.wait() == 0, command.err
    return command


def evaluating(run_dir: Path, iteration: int) -> bool:
    """Whether a run has trained an iteration, of two at most, and evaluates it."""
    samples, saved = run_dir / "samples.jsonl", run_dir / "checkpoints" / "000002"
    trained = f'"iteration": {iteration}, "kind": "training"'
    return (
        samples.exists()
        and trained in samples.read_text()
        and len(metrics(run_dir)) == iteration
        and (iteration == 0 or saved.exists())
    )


def kill_within_the_evaluation(command: WarmCommand, run_dir: Path, iteration: int) -> None:
    """SIGKILL to a run while it evaluates an iteration."""
    until(lambda: evaluating(run_dir, iteration))
    command.kill()
    command.wait()
    assert len(metrics(run_dir)) == iteration and not (run_dir / "record.json").exists()


def same_records(one: Path, other: Path) -> None:
    for name in ("metrics.jsonl", "samples.jsonl", "prompt_scores.jsonl"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


@pytest.mark.slow
def test_a_run_killed_within_evaluations_ends_as_if_it_had_not_been(
    slowly: Words, tmp_path: Path
) -> None:
    """Killed where the iteration has to be trained again, and where a checkpoint holds it."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    words = ("checkpoint_every=0",)
    finish(slowly(f"run_dir={whole}", *words), tmp_path)
    again = slowly(f"run_dir={killed}", *words)
    for iteration in (0, 1):
        kill_within_the_evaluation(start(again, tmp_path), killed, iteration)
    command = finish(again, tmp_path)
    same_records(whole, killed)
    # the last iteration is saved before it is evaluated, so it is not trained twice
    assert f"{killed}: resumed after iteration 2" in command.out
    kinds = [line["kind"] for line in read_lines(killed / "samples.jsonl")]
    assert [kinds.count(kind) for kind in ("training", "evaluation", "probe")] == [
        2 * 3, 2 * 3 * 6 * 8, 2 * 2
    ]  # fmt: skip


@pytest.mark.slow
def test_a_run_that_is_to_stop_does_not_wait_for_its_evaluation(
    slowly: Words, tmp_path: Path
) -> None:
    """In two processes, after its only iteration."""
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    words = ("hardware=cpu2", "hardware.rollout_batch_size=1", "algorithm.iterations=1")
    finish(slowly(f"run_dir={whole}", *words), tmp_path)
    again = slowly(f"run_dir={stopped}", *words)
    command = start(again, tmp_path)
    until(lambda: evaluating(stopped, 0))
    command.send_signal(signal.SIGTERM)
    assert command.wait() == 143, command.err
    assert "saved within the evaluation after iteration 1 of 1" in command.out
    assert metrics(stopped) == []
    finish(again, tmp_path)
    same_records(whole, stopped)
