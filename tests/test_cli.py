"""`python -m cory.train` as a user calls it: records, repeatability, sweeps, failures."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.support.commands import metrics
from tests.support.warm import WarmCommand


def test_a_run_leaves_its_records_and_the_same_seed_repeats_it(run, tmp_path) -> None:
    first = run("run_dir=a")
    assert first.wait() == 0, first.err
    assert "curves.png" in first.out and "held-out reward, agent 0" in first.out
    run_dir = tmp_path / "a"
    shown = f"before training: held-out reward {metrics(run_dir)[0]['before/score/agent_0']:.2f}"
    assert shown in first.out
    record = json.loads((run_dir / "record.json").read_text())
    assert record["iterations"] == 2 and record["seed"] == 0
    assert {"commit", "clean", "packages", "device", "wall_s", "final"} <= record.keys()
    assert all(isinstance(v, float) for line in metrics(run_dir) for v in list(line.values())[1:])
    assert record["final"]["eval/score/agent_0"] == metrics(run_dir)[-1]["eval/score/agent_0"]
    samples = [json.loads(line) for line in (run_dir / "samples.jsonl").read_text().splitlines()]
    turns = [turn for line in samples if line["kind"] == "training" for turn in line["turns"]]
    assert [turn["role"] for turn in turns] == ["solo"] * 3
    assert sum(line["kind"] == "evaluation" for line in samples) == 8
    assert (run_dir / "curves.png").stat().st_size > 10_000
    assert run("run_dir=b").wait() == 0
    assert metrics(tmp_path / "b") == metrics(run_dir)
    again = run("run_dir=a")
    assert again.wait() == 0 and "is complete" in again.out


def test_a_sweep_goes_on_after_a_failed_job_and_repeats_only_what_is_missing(
    run: Callable[..., WarmCommand], tmp_path: Path, tiny_model: str
) -> None:
    (tmp_path / "empty").mkdir()
    sweep = [
        *("hydra.mode=MULTIRUN", "hydra.sweep.dir=jobs", "hydra.sweep.subdir=${hydra:job.num}"),
        *("algorithm=ppo", "algorithm.iterations=1"),
        f"model.path={tmp_path / 'empty'},{tiny_model}",
    ]
    answer = run(*sweep)
    assert answer.wait() == 1
    assert "model.path=" in answer.err and "has no config.json" in answer.err
    assert "Traceback" not in answer.err
    assert not (tmp_path / "jobs/0/record.json").exists()
    record = tmp_path / "jobs/1/record.json"
    written = record.stat().st_mtime_ns
    again = run(*sweep)
    assert again.wait() == 1
    assert "jobs/1 is complete" in again.out
    assert record.stat().st_mtime_ns == written
