"""The jobs of a sweep: listed, in order, in parallel, and ended together."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from cory.config import ConfigError
from cory.config.names import Sweep
from cory.runtime.sweeps import folder_name, in_stages, jobs_of
from tests.support.commands import Command, metrics, until, workers
from tests.support.composing import compose_config
from tests.support.warm import WarmCommand


def test_a_job_for_every_run_and_seed() -> None:
    sweep = Sweep("x/s", {"x/a": ["experiment=e", "k=1"], "x/b": []}, [0, 1])
    jobs = jobs_of(sweep, ["sweep=x/s", "k=2"])
    assert [job.place for job in jobs] == ["x/a/seed0", "x/a/seed1", "x/b/seed0", "x/b/seed1"]
    own = ["experiment=e", "k=2", "sweep=x/s", "seed=0"]
    assert jobs[0].words == ["keep_state=false", *own]
    assert "keep_state=true" in jobs_of(sweep, ["keep_state=true"])[0].words
    assert [job.place for job in jobs_of(sweep, ["seed=7"])] == ["x/a/seed7", "x/b/seed7"]
    assert [job.name for job in jobs_of(sweep, ["seed=range(0,3)"])] == ["x/a"] * 3 + ["x/b"] * 3
    with pytest.raises(ConfigError, match=r"k=2,3: a sweep has one value of each setting but"):
        jobs_of(sweep, ["k=2,3"])


def test_runs_that_others_start_from_come_first() -> None:
    sweep = Sweep("x/s", {"x/b": ["init_from=${run:x/a}"], "x/a": []}, [0, 1])

    stages = in_stages(jobs_of(sweep, []), compose_config)
    assert [[job.place for job in stage] for stage in stages] == [
        ["x/a/seed0", "x/a/seed1"],
        ["x/b/seed0", "x/b/seed1"],
    ]


def test_folders_say_what_varies_and_can_be_typed() -> None:
    assert folder_name("algorithm-ppo_a.k-0.3_seed-0") == "algorithm-ppo_a.k-0.3_seed-0"
    assert folder_name("") == "0"
    # a hash, as what has a dash in its place is another folder
    assert folder_name("init_from-jobs/0") == "init_from-jobs-0-2d3748a2"
    assert len(folder_name("x" * 999)) == 129


@pytest.mark.slow
@pytest.mark.parametrize("parallel", [1, 2])
def test_a_signal_ends_the_whole_sweep_and_every_run_is_saved(
    parallel: int, short: list[str], tmp_path: Path
) -> None:
    many = ["seed=0,1,2", "algorithm.iterations=100000", "hydra.sweep.dir=jobs"]
    # joblib's processes are waited for where Python ends, as a fork does not
    words = ["-m", *short, *many, f"parallel_runs={parallel}"]
    warm = parallel == 1
    command = (
        WarmCommand(tmp_path, words) if warm else Command(tmp_path, ["-m", "cory.train", *words])
    )
    jobs = tmp_path / "jobs"
    until(lambda: len([run for run in jobs.glob("*") if metrics(run)]) == parallel)
    command.send_signal(signal.SIGINT)
    assert command.wait() == 130
    assert "Traceback" not in command.err
    begun = [jobs / f"seed-{number}" for number in range(parallel)]
    assert all(list((run / "checkpoints").iterdir()) for run in begun)
    assert not any(workers(run) for run in begun)
