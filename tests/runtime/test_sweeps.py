"""The jobs of a sweep, one after another and side by side."""

from __future__ import annotations

import json
import shlex
import signal
from pathlib import Path

import pytest

from cory.runtime.sweeps.jobs import folder_of
from tests.support.commands import SOON, metrics, short_settings, until, workers
from tests.support.warm import WarmCommand

pytestmark = pytest.mark.slow

IN_TURN: list[str] = []
PARALLEL = ["parallel_runs=2"]


@pytest.fixture
def sweep(tiny_model: str, tiny_judge: str, reviews_file: Path) -> list[str]:
    return [
        "-m",
        *short_settings(tiny_model, tiny_judge, reviews_file),
        "algorithm.iterations=1",
        "hydra.sweep.dir=jobs",
    ]


def test_a_failed_parallel_job_stops_no_other_and_a_second_start_does_what_is_missing(
    sweep: list[str], tmp_path: Path, tiny_model: str
) -> None:
    empty = tmp_path / "model"  # of weights and tokenizer
    empty.mkdir()
    (empty / "config.json").write_bytes((Path(tiny_model) / "config.json").read_bytes())
    # the second is refused before a worker starts, the first by its worker
    words = [*sweep, *PARALLEL, f"model.path={empty},{tiny_model}", "algorithm.clip_range=0.1,5"]
    command = WarmCommand(tmp_path, words)
    assert command.wait() == 1
    errors = command.err.splitlines()
    refused = [line for line in errors if line.startswith("error: algorithm.clip_range must lie")]
    (failed,) = [n for n, line in enumerate(errors) if line.startswith("job 1 of 4: ")]
    assert errors[failed].startswith(f"job 1 of 4: path={empty} clip_range=0.1 failed after ")
    assert errors[failed + 1].startswith(f"error: model.path={empty}: cannot be loaded")
    assert [line.partition(";")[0] for line in errors if " refused;" in line] == [
        f"job {number} of 4: path={path} clip_range=5 refused"
        for number, path in ((2, empty), (4, tiny_model))
    ]
    assert len(refused) == 2 and len(errors) == 6, command.err
    first, second, *ends = command.out.splitlines()
    assert first == "4 runs (4 settings x 1 seed), below jobs"
    assert second.startswith("2 at a time with 1 thread each (parallel_runs=1: one after")
    begun = [line for line in ends if " begins; " in line]
    assert len(begun) == 2 and sum(" finished in " in line for line in ends) == 1, command.out
    varied = [(empty, "0.1"), (empty, "5"), (tiny_model, "0.1"), (tiny_model, "5")]
    runs = [
        tmp_path / "jobs" / folder_of({"model.path": str(path), "algorithm.clip_range": clip})
        for path, clip in varied
    ]
    assert [(run / "record.json").exists() for run in runs] == [False, False, True, False]
    assert [run.exists() for run in runs] == [False, False, True, False]  # none of what was refused
    assert "1 of 4 jobs finished, 1 failed, 2 refused" in command.out
    assert f"job 1: path={empty} clip_range=0.1 failed: model.path={empty}" in command.out
    assert "clip_range=5 refused: algorithm.clip_range must lie" in command.out
    written = (runs[2] / "record.json").stat().st_mtime_ns

    for file in Path(tiny_model).iterdir():
        (empty / file.name).write_bytes(file.read_bytes())
    again = WarmCommand(tmp_path, words)
    assert again.wait() == 1
    assert sum(line.startswith("error: ") for line in again.err.splitlines()) == 2, again.err
    assert again.out.count("is complete") == 1
    assert "2 of 4 jobs finished, 1 of them before, 2 refused" in again.out
    # two settings with a run each: the table of both, and as a file
    table = (tmp_path / "jobs" / "comparison.txt").read_text()
    assert "held-out reward, agent 0 (eval/score/agent_0)" in table and table in again.out
    assert "hydra.sweep.dir=jobs" in again.out
    assert [(run / "record.json").exists() for run in runs] == [True, False, True, False]
    assert (runs[2] / "record.json").stat().st_mtime_ns == written


@pytest.mark.parametrize(
    "manner",
    [pytest.param(IN_TURN, id="in turn"), pytest.param(PARALLEL, id="side by side")],
)
def test_a_signal_ends_the_whole_sweep_and_every_run_is_saved(
    manner: list[str], sweep: list[str], tmp_path: Path
) -> None:
    words = [*sweep, *manner, "algorithm.iterations=100000", "seed=0,1,2"]
    command = WarmCommand(tmp_path, words)
    jobs = tmp_path / "jobs"
    parallel = 2 if manner else 1
    until(lambda: len([run for run in jobs.glob("*") if metrics(run)]) == parallel)
    command.send_signal(signal.SIGINT)
    assert command.wait() == 130
    assert "Traceback" not in command.err
    assert command.err.count("interrupted; the run in") == parallel
    begun = [jobs / f"seed{number}" for number in range(parallel)]
    assert all(list((run / "checkpoints").iterdir()) for run in begun)
    assert not any(workers(run) for run in begun)
    assert {path.name for path in jobs.iterdir()} == {"multirun.yaml", *(r.name for r in begun)}
    assert f"0 of 3 jobs finished, {parallel} stopped, {3 - parallel} never begun" in command.out
    last = command.out.rstrip().splitlines()[-1]
    assert last.strip() == f"python -m cory.train {shlex.join(words)}"


def test_no_run_of_a_parallel_sweep_outlives_it(sweep: list[str], tmp_path: Path) -> None:
    words = [*sweep, *PARALLEL, "algorithm.iterations=100000", "seed=0,1"]
    command = WarmCommand(tmp_path, words)
    runs = [tmp_path / "jobs" / f"seed{number}" for number in range(2)]
    until(lambda: all(metrics(run) for run in runs))
    assert all(workers(run) for run in runs)
    command.kill()
    until(lambda: not any(workers(run) for run in runs), SOON)


def test_runs_side_by_side_are_those_in_turn(sweep: list[str], tmp_path: Path) -> None:
    """The same numbers; each says what it says in its own file, and a word typed later counts."""
    names = {"in_turn": IN_TURN, "side_by_side": PARALLEL}
    said = {}
    for name, manner in names.items():
        words = [*sweep, *manner, "sweep=cory/fig3", "experiment=quickstart", "seed=0,1"]
        command = WarmCommand(tmp_path, [*words, f"hydra.sweep.dir={name}"])
        assert command.wait() == 0, command.err
        said[name] = command.out
    for seed in ("quickstart/seed0", "quickstart/seed1"):
        for file in ("metrics.jsonl", "samples.jsonl"):
            one, other = (tmp_path / name / seed / file for name in names)
            assert one.read_bytes() == other.read_bytes() != b""
        out = (tmp_path / "side_by_side" / seed / "output.txt").read_text()
        assert "records in" in out and "records in" not in said["side_by_side"]
        assert not (tmp_path / "in_turn" / seed / "output.txt").exists()
    assert said["in_turn"].count("records in") == 2
    for out in said.values():
        assert out.startswith("sweep=cory/fig3: 2 runs (1 setting x 2 seeds)\n")
        ends = sorted(line for line in out.splitlines() if " finished in " in line)
        assert [line[:31] for line in ends] == [
            f"job {seed + 1} of 2: seed={seed} finished in " for seed in (0, 1)
        ]
        assert "sweep over: 2 of 2 jobs finished; " in out


@pytest.mark.slow
def test_what_is_only_evaluated_trains_no_more_for_iterations_of_a_sweep(tmp_path: Path) -> None:
    rows = "experiment=spag/llama2_base,cory/imdb_ppo"
    words = ["-m", rows, "scale=small", "algorithm.iterations=2", "evaluation.prompts=1"]
    command = WarmCommand(tmp_path, [*words, "hydra.sweep.dir=jobs"])
    assert command.wait() == 0, command.err
    assert "experiment=spag/llama2_base stays untrained" in command.out
    records = [json.loads(path.read_text()) for path in (tmp_path / "jobs").rglob("record.json")]
    done = {record["experiment"]: record["iterations"] for record in records}
    assert done == {"spag/llama2_base": 0, "cory/imdb_ppo": 2}
    assert command.out.count("note: algorithm.iterations=2 is for the runs that train;") == 1


def test_a_run_of_a_sweep_starts_from_another_of_it(sweep: list[str], tmp_path: Path) -> None:
    words = [*sweep, *PARALLEL, "init_from=null,jobs/init_from-null", "algorithm.iterations=0"]
    command = WarmCommand(tmp_path, words)
    assert command.wait() == 0, command.err
    first, second = (
        tmp_path / "jobs" / folder_of({"init_from": value})
        for value in ("null", "jobs/init_from-null")
    )
    assert first.name == "init_from-null" and (first / "record.json").exists()
    assert (second / "record.json").exists()
