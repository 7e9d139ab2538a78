"""The jobs of a sweep, and what Hydra is told of each."""

import json
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus

from cory import train
from cory.config import ConfigError
from cory.config.sweep_files import Sweep
from cory.runs.run_dir import METRICS, RECORD, read_settings
from cory.runtime.launch import JobFailed
from cory.runtime.sweeps import folder_name, in_stages, jobs_of, quoted
from tests.support.commands import Command, metrics, until, workers
from tests.support.composing import compose_config
from tests.support.warm import WarmCommand


def test_a_job_for_every_run_and_seed() -> None:
    sweep = Sweep("x/s", {"x/a": ["experiment=e", "k=1"], "x/b": []}, [0, 1])
    jobs = jobs_of(sweep, ["sweep=x/s", "k=2"])
    assert [job.place for job in jobs] == ["x/a/seed0", "x/a/seed1", "x/b/seed0", "x/b/seed1"]
    own = ["experiment=e", "k=2", "sweep=x/s", "seed=0"]
    assert jobs[0].words == own
    assert [job.place for job in jobs_of(sweep, ["seed=7"])] == ["x/a/seed7", "x/b/seed7"]
    assert [job.name for job in jobs_of(sweep, ["seed=range(0,3)"])] == ["x/a"] * 3 + ["x/b"] * 3
    with pytest.raises(ConfigError, match=r"k=2,3: a sweep has one value of each setting but"):
        jobs_of(sweep, ["k=2,3"])


@pytest.mark.parametrize("text", ["/tmp/a b", "/tmp/mé/p (1)/a'b", "/x\\'y", "a=b#~c"])
def test_any_folder_can_be_typed(text: str) -> None:
    parser = OverridesParser.create()
    assert parser.parse_override(f"hydra.sweep.dir={quoted(text)}").value() == text
    assert parser.parse_override(f"hydra.searchpath=[{quoted(text)}]").value() == [text]


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
def test_a_signal_ends_the_whole_sweep_and_every_run_is_saved(parallel, short, tmp_path) -> None:
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


def made_up(run_dir: Path, *_: Any, **how: Any) -> bool:
    """In place of workers: a run that has finished; above a clip range of 0.8 one that has not."""
    clip_range = read_settings(run_dir).algorithm.clip_range
    if clip_range > 0.8:
        return False
    line = {"iteration": 0, "eval/score/agent_0": clip_range}
    (run_dir / METRICS).write_text(json.dumps(line) + "\n")
    with (run_dir / RECORD).open("x", encoding="utf-8") as record:  # only once in a directory
        record.write("{}")
    return True


@pytest.mark.slow
def test_failed_jobs_are_told_as_failed(
    command: Callable[..., Any], monkeypatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(train, "launch", made_up)
    words = ("algorithm.clip_range=0.1,0.3,0.9", "parallel_runs=1")
    for _ in range(2):  # at the second time they are complete
        told: list[JobReturn] = []
        # Hydra imports its plugins by itself, and anew where its state was put back
        named = Plugins.instance().class_name_to_class
        launcher: Any = named["hydra._internal.core_plugins.basic_launcher.BasicLauncher"]
        whole = launcher.launch

        def noting(
            self: Any, words: Any, initial_job_idx: int, whole: Any = whole, told: Any = told
        ) -> Sequence[JobReturn]:
            own: Sequence[JobReturn] = whole(self, words, initial_job_idx)
            told += own
            return own

        monkeypatch.setattr(launcher, "launch", noting)
        code, _, err = command("-m", *words, f"hydra.sweep.dir={tmp_path}/sweep")
        assert (code, err) == (1, "")
        statuses = [JobStatus.COMPLETED, JobStatus.COMPLETED, JobStatus.FAILED]
        assert [one.status for one in told] == statuses
        with pytest.raises(JobFailed):
            _ = told[2].return_value
