"""The jobs of a sweep: listed, in order, in parallel, and ended together."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from cory.config import ConfigError
from cory.config.names import Sweep
from cory.runtime.sweeps import in_stages, jobs_of
from cory.runtime.varied import folder_of, name_of
from tests.support.commands import Command, metrics, short_settings, until, workers
from tests.support.composing import compose_config
from tests.support.warm import WarmCommand


def test_a_job_for_every_run_seed_and_combination() -> None:
    sweep = Sweep("x/s", {"x/a": ["experiment=e", "k=1"], "x/b": []}, [0, 1])
    jobs = jobs_of(sweep, ["sweep=x/s", "scale=small", "k=2", "l=3,4"])
    assert len(jobs) == 8
    assert jobs[0].words == ["experiment=e", "k=2", "seed=0", "sweep=x/s", "scale=small", "l=3"]
    assert str(jobs[0].run_dir) == "outputs/runs/small/paper/x/a/l3/seed0"
    assert [job.subfolder for job in jobs_of(sweep, ["seed=7"])] == ["x/a/seed7", "x/b/seed7"]
    assert str(jobs_of(sweep, [], Path("y"))[0].run_dir) == "y/x/a/seed0"


def test_runs_that_others_start_from_come_first(tmp_path: Path) -> None:
    sweep = Sweep("x/s", {"x/b": ["init_from=${run:x/a}"], "x/a": []}, [0, 1])

    def compose(*words: str) -> DictConfig:
        cfg = compose_config("quickstart=1") if not words else compose_config()
        OmegaConf.set_struct(cfg, False)
        cfg.init_from = "outputs/runs/paper/paper/x/a/seed0" if len(words) > 1 else None
        return cfg

    stages = in_stages(jobs_of(sweep, []), compose)
    assert [[job.subfolder for job in stage] for stage in stages] == [
        ["x/a/seed0", "x/a/seed1"],
        ["x/b/seed0", "x/b/seed1"],
    ]
    # the second would look for the first where it does not lie
    for jobs in (jobs_of(sweep, ["l=3,4"]), jobs_of(sweep, [], tmp_path)):
        with pytest.raises(ConfigError, match="start from x/a, which they look for in outputs/"):
            in_stages(jobs, compose)


@pytest.mark.parametrize("word", ["scale=paper,small", "fidelity=a,b", "l=interval(0,1)"])
def test_what_a_sweep_cannot_take_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{re.escape(word)}: "):
        jobs_of(Sweep("x/s", {"x/a": []}, [0]), ["sweep=x/s", word])


def test_folders_and_names_say_what_varies() -> None:
    assert name_of({"experiment": "cory/imdb_ppo", "seed": "0"}) == "cory/imdb_ppo seed=0"
    values = {"algorithm": "ppo", "algorithm.kl_coef": "0.3", "seed": "0"}
    assert folder_of(values) == "algorithm-ppo_kl_coef0.3_seed0"
    # a hash, as what has a dash in its place is another folder
    assert folder_of({"init_from": "jobs/0"}) == "init_from-jobs-0-2d3748a2"
    assert folder_of({"init_from": "jobs-0"}) == "init_from-jobs-0"


@pytest.mark.slow
@pytest.mark.parametrize("parallel", [1, 2])
def test_a_signal_ends_the_whole_sweep_and_every_run_is_saved(
    parallel: int, tiny_model: str, tiny_judge: str, reviews_file: Path, tmp_path: Path
) -> None:
    words = short_settings(tiny_model, tiny_judge, reviews_file)
    many = ["seed=0,1,2", "algorithm.iterations=100000", "hydra.sweep.dir=jobs"]
    # joblib's processes are waited for where Python ends, as a fork does not
    words = ["-m", *words, *many, f"parallel_runs={parallel}"]
    warm = parallel == 1
    command = (
        WarmCommand(tmp_path, words) if warm else Command(tmp_path, ["-m", "cory.train", *words])
    )
    jobs = tmp_path / "jobs"
    until(lambda: len([run for run in jobs.glob("*") if metrics(run)]) == parallel)
    command.send_signal(signal.SIGINT)
    assert command.wait() == 130
    assert "Traceback" not in command.err
    begun = [jobs / f"seed{number}" for number in range(parallel)]
    assert all(list((run / "checkpoints").iterdir()) for run in begun)
    assert not any(workers(run) for run in begun)
