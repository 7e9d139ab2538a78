"""The jobs of a sweep, one after another and side by side."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.commands import metrics, short_settings, until, workers
from tests.support.warm import WarmCommand

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


@pytest.mark.slow
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
    (failed,) = [n for n, line in enumerate(errors) if line.startswith("quickstart seed 0: failed")]
    assert errors[failed + 1].startswith(f"error: model.path={empty}: cannot be loaded")
    assert len(refused) == 2 and len(errors) == 4, command.err
    first, *ends = command.out.splitlines()
    assert first.startswith("4 runs, 2 at a time with 1 thread each (parallel_runs=1: one after")
    assert len(ends) == 1 and ends[0].startswith("quickstart seed 0: finished in "), command.out
    assert (tmp_path / "jobs" / "2" / "output.txt").read_text().count("records in jobs/2") == 0
    runs = [tmp_path / "jobs" / str(number) for number in range(4)]
    assert [(run / "record.json").exists() for run in runs] == [False, False, True, False]
    written = (runs[2] / "record.json").stat().st_mtime_ns

    for file in Path(tiny_model).iterdir():
        (empty / file.name).write_bytes(file.read_bytes())
    again = WarmCommand(tmp_path, words)
    assert again.wait() == 1
    assert len(again.err.splitlines()) == 2, again.err
    # of four: two are refused, and one was complete
    assert "; 4 of 4 runs over, 0 at work" in again.out or "1 at work" in again.out
    assert again.out.count("is complete") == 1
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
    begun = [jobs / str(number) for number in range(parallel)]
    assert all(list((run / "checkpoints").iterdir()) for run in begun)
    assert not any(workers(run) for run in begun)
    assert {path.name for path in jobs.iterdir()} == {"multirun.yaml", *(r.name for r in begun)}


def test_no_run_of_a_parallel_sweep_outlives_it(sweep: list[str], tmp_path: Path) -> None:
    words = [*sweep, *PARALLEL, "algorithm.iterations=100000", "seed=0,1"]
    command = WarmCommand(tmp_path, words)
    runs = [tmp_path / "jobs" / str(number) for number in range(2)]
    until(lambda: all(metrics(run) for run in runs))
    assert all(workers(run) for run in runs)
    command.kill()
    until(lambda: not any(workers(run) for run in runs), 15)


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
    first, *ends = said["side_by_side"].splitlines()
    assert first.startswith("2 runs, 2 at a time")
    assert [line[:28] for line in sorted(ends)] == [
        f"quickstart seed {seed}: finished " for seed in (0, 1)
    ]


def test_a_run_of_a_sweep_starts_from_another_of_it(sweep: list[str], tmp_path: Path) -> None:
    words = [*sweep, *PARALLEL, "init_from=null,jobs/0", "algorithm.iterations=0"]
    command = WarmCommand(tmp_path, words)
    assert command.wait() == 0, command.err
    assert all((tmp_path / "jobs" / number / "record.json").exists() for number in "01")
