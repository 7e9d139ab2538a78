"""Evaluations in whole runs: killed and stopped within them."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from cory.runs.files import read_lines
from tests.support.commands import last_wins, metrics, short_settings, until
from tests.support.warm import WarmCommand

SLOW = [  # evaluations last some seconds
    "algorithm=cory",
    "checkpoint_every=0",
    "evaluate_every=1",
    "evaluation.samples=3",
    "evaluation.team=true",
    "evaluation.probes=['the movie']",
    "hardware.rollout_batch_size=2",
    "samples_every=1",
]


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


@pytest.mark.slow
def test_a_run_killed_and_stopped_within_evaluations_ends_as_if_it_had_not_been(
    tiny_model: str, tiny_judge: str, reviews_file: Path, tmp_path: Path
) -> None:
    """Killed where the iteration has to be trained again, stopped where a checkpoint holds it."""
    settings = last_wins([*short_settings(tiny_model, tiny_judge, reviews_file), *SLOW])
    whole, other = tmp_path / "whole", tmp_path / "other"

    def start(run_dir: Path) -> WarmCommand:
        return WarmCommand(tmp_path, [*settings, f"run_dir={run_dir}"])

    undisturbed = start(whole)
    assert undisturbed.wait() == 0, undisturbed.err
    killed = start(other)
    until(lambda: evaluating(other, 0))
    killed.kill()
    killed.wait()
    assert metrics(other) == [] and not (other / "record.json").exists()
    stopped = start(other)
    until(lambda: evaluating(other, 1))
    stopped.send_signal(signal.SIGTERM)
    assert stopped.wait() == 143, stopped.err
    assert "saved within the evaluation after iteration 2 of 2" in stopped.out
    assert len(metrics(other)) == 1
    finished = start(other)
    assert finished.wait() == 0, finished.err
    # the last iteration is saved before it is evaluated, so it is not trained twice
    assert f"{other}: resumed after iteration 2" in finished.out
    for name in ("metrics.jsonl", "samples.jsonl", "prompt_scores.jsonl"):
        assert (whole / name).read_bytes() == (other / name).read_bytes(), name
    kinds = [line["kind"] for line in read_lines(other / "samples.jsonl")]
    assert [kinds.count(kind) for kind in ("training", "evaluation", "probe")] == [
        2 * 3, 2 * 3 * 3 * 8, 2 * 2
    ]  # fmt: skip
