"""The jobs of a sweep, one after another and in parallel."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.commands import Command, metrics, short_settings, until, workers
from tests.support.warm import WarmCommand

BASIC: list[str] = []
JOBLIB = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]


@pytest.fixture
def sweep(tiny_model: str, tiny_judge: str, reviews_file: Path) -> list[str]:
    return [
        "-m",
        *short_settings(tiny_model, tiny_judge, reviews_file),
        "algorithm.iterations=1",
        "hydra.sweep.dir=jobs",
    ]


def start(words: list[str], cwd: Path) -> Command | WarmCommand:
    """The sweep; joblib starts programs for its jobs, whatever itself is."""
    if JOBLIB[0] in words:
        return Command(cwd, ["-m", "cory.train", *words])
    return WarmCommand(cwd, words)


@pytest.mark.slow
def test_a_failed_parallel_job_stops_no_other_and_a_second_start_does_what_is_missing(
    sweep: list[str], tmp_path: Path, tiny_model: str
) -> None:
    empty = tmp_path / "model"
    empty.mkdir()
    # the second is refused before a worker starts, the first by its worker
    words = [*sweep, *JOBLIB, f"model.path={empty},{tiny_model}", "algorithm.clip_range=0.1,5"]
    command = start(words, tmp_path)
    assert command.wait() == 1
    errors = sorted(command.err.splitlines())
    assert len(errors) == 3, command.err
    assert errors[0].startswith("error: algorithm.clip_range must lie in (0, 1), got 5")
    assert errors[2].startswith(f"error: model.path={empty}: the folder has no config.json")
    runs = [tmp_path / "jobs" / str(number) for number in range(4)]
    assert [(run / "record.json").exists() for run in runs] == [False, False, True, False]
    written = (runs[2] / "record.json").stat().st_mtime_ns

    for file in Path(tiny_model).iterdir():
        (empty / file.name).write_bytes(file.read_bytes())
    again = start(words, tmp_path)
    assert again.wait() == 1
    assert len(again.err.splitlines()) == 2, again.err
    assert again.out.count("is complete") == 1
    assert [(run / "record.json").exists() for run in runs] == [True, False, True, False]
    assert (runs[2] / "record.json").stat().st_mtime_ns == written


@pytest.mark.parametrize(
    "launcher",
    [
        pytest.param(BASIC, id="basic"),
        pytest.param(JOBLIB, id="joblib", marks=pytest.mark.slow),
    ],
)
def test_a_signal_ends_the_whole_sweep_and_every_run_is_saved(
    launcher: list[str], sweep: list[str], tmp_path: Path
) -> None:
    words = [*sweep, *launcher, "algorithm.iterations=100000", "seed=0,1,2"]
    command = start(words, tmp_path)
    jobs = tmp_path / "jobs"
    parallel = 2 if launcher else 1
    until(lambda: len([run for run in jobs.glob("*") if metrics(run)]) == parallel)
    command.send_signal(signal.SIGINT)
    assert command.wait() == 130
    assert "Traceback" not in command.err
    assert command.err.count("interrupted; the run in") == parallel
    begun = [jobs / str(number) for number in range(parallel)]
    assert all(list((run / "checkpoints").iterdir()) for run in begun)
    assert not any(workers(run) for run in begun)
    assert {path.name for path in jobs.iterdir()} == {"multirun.yaml", *(r.name for r in begun)}


@pytest.mark.slow
def test_no_run_of_a_parallel_sweep_outlives_it(sweep: list[str], tmp_path: Path) -> None:
    command = start([*sweep, *JOBLIB, "algorithm.iterations=100000", "seed=0,1"], tmp_path)
    runs = [tmp_path / "jobs" / str(number) for number in range(2)]
    until(lambda: all(metrics(run) for run in runs))
    assert all(workers(run) for run in runs)
    command.kill()
    until(lambda: not any(workers(run) for run in runs), 15)
