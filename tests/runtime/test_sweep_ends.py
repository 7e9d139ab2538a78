"""What a sweep says before its first job and after its last, without training."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hydra
import pytest
from hydra import initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from cory.runtime.hydra_options import look_beside
from cory.runtime.sweeps import jobs
from cory.runtime.sweeps.begin import say_begin
from cory.runtime.sweeps.end import told_at_the_end
from cory.runtime.sweeps.jobs import keep_typed
from cory.runtime.sweeps.progress import BEFORE, FAILED, FINISHED, REFUSED, STOPPED, Progress
from tests.support.composing import CONF, compose_config

BASIC = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"


@pytest.fixture(autouse=True)
def _own_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(jobs.TYPED, "[]")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["train.py"])
    monkeypatch.setattr("cory.runs.provenance.changed_files", lambda: "")


def composed(words: Sequence[str]) -> DictConfig:
    look_beside(CONF)
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        return hydra.compose("train", overrides=list(words), return_hydra_config=True)


def sweeper(**params: str) -> Any:
    return OmegaConf.create({"_target_": BASIC, "params": params or None})


def test_a_typed_sweep_says_its_runs_and_where_they_lie(capsys: pytest.CaptureFixture[str]) -> None:
    keep_typed(["-m", "seed=0,1,2", "algorithm.kl_coef=0.1,0.3", "algorithm.iterations=4"])
    progress = Progress(folder=Path("outputs/adhoc/x"))
    say_begin(progress, sweeper(), lambda words: pytest.fail("composed"), CONF)
    assert capsys.readouterr().out == "6 runs (2 settings x 3 seeds), below outputs/adhoc/x\n"
    keep_typed(["-m", "algorithm.kl_coef=0.1,0.3"])
    say_begin(progress, sweeper(), lambda words: pytest.fail("composed"), CONF)
    assert capsys.readouterr().out == "2 runs (2 settings x 1 seed), below outputs/adhoc/x\n"


def record(run_dir: Path, seconds: float) -> None:
    """A finished run."""
    run_dir.mkdir(parents=True)
    (run_dir / "record.json").write_text(json.dumps({"wall_s": seconds}))


@pytest.mark.slow
def test_a_sweep_with_a_name_says_how_many_runs_finished_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = sweeper(experiment="cory/imdb_ppo", seed="0,1")
    keep_typed(["sweep=cory/fig3", "scale=small", "algorithm.kl_coef=0.1,0.3"])
    say_begin(Progress(sweep="cory/fig3"), own, composed, CONF)
    assert capsys.readouterr().out.startswith("sweep=cory/fig3: 4 runs (2 settings x 2 seeds)\n")
    for eta, seed in (("0.1", 0), ("0.1", 1), ("0.3", 1)):
        record(Path(f"outputs/runs/small/paper/cory/imdb_ppo/kl_coef{eta}/seed{seed}"), 9.0)
    say_begin(Progress(sweep="cory/fig3"), own, composed, CONF)
    assert "4 runs (2 settings x 2 seeds), 3 of them finished before\n" in capsys.readouterr().out
    record(Path("outputs/runs/small/paper/cory/imdb_ppo/kl_coef0.3/seed0"), 9.0)
    say_begin(Progress(sweep="cory/fig3"), own, composed, CONF)
    assert capsys.readouterr().out.endswith("x 2 seeds), 4 of them finished before\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sweep", "changed", "told"),
    [
        ("cory/fig3", " M cory/episode.py", True),
        ("cory/fig3", "", False),
        ("cory/fig3", None, False),  # outside a checkout
        ("mine/fig3", " M cory/episode.py", False),  # no page is about it
    ],
)
def test_runs_that_pages_will_leave_out_are_told_before(
    sweep: str,
    changed: str | None,
    told: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("cory.runs.provenance.changed_files", lambda: changed)
    own = sweeper(experiment="cory/imdb_ppo", seed="0")
    keep_typed(["sweep=cory/fig3", "scale=small"])
    say_begin(Progress(sweep=sweep), own, composed, CONF)
    assert ("pages leave such runs out" in capsys.readouterr().out) == told
    record(Path("outputs/runs/small/paper/cory/imdb_ppo/seed0"), 9.0)
    say_begin(Progress(sweep=sweep), own, composed, CONF)
    assert "pages" not in capsys.readouterr().out  # nothing is to run


def run(folder: Path, eta: float, seed: int, score: float) -> Path:
    """A finished run with a score."""
    run_dir = folder / f"kl_coef{eta}_seed{seed}"
    run_dir.mkdir(parents=True)
    cfg = compose_config(f"run_dir={run_dir}", f"seed={seed}", f"algorithm.kl_coef={eta}")
    OmegaConf.save(cfg, run_dir / "config.yaml")
    line = {"iteration": 0, "eval/score/agent_0": score}
    (run_dir / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    (run_dir / "record.json").write_text("{}")
    return run_dir


def played(progress: Progress, folder: Path, *ways: str, jobs_in_all: int) -> None:
    """A sweep whose jobs end in these ways."""
    with told_at_the_end(progress):
        progress.jobs, progress.folder = jobs_in_all, folder
        for number, how in enumerate(ways):
            eta, seed = (0.1, 0.3)[number // 2], number % 2
            job = progress.job(number + 1, {}, f"kl_coef={eta} seed={seed}")
            progress.say_begin(job)
            if how in (FINISHED, BEFORE):
                job.run_dir = run(folder, eta, seed, 10 * seed + eta)
            elif how != REFUSED:
                job.run_dir = folder / f"kl_coef{eta}_seed{seed}"
                job.run_dir.mkdir(parents=True)
            progress.say_end(job, how, "error: why" if how == FAILED else "")


@pytest.mark.slow
def test_a_complete_sweep_ends_with_one_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path("outputs/adhoc/2026-01-31_12-00-00")
    played(Progress(), folder, FINISHED, BEFORE, FINISHED, FINISHED, jobs_in_all=4)
    said = capsys.readouterr().out
    head = "sweep over: 4 of 4 jobs finished, 1 of them before; "
    assert re.search(rf"\n{head}0:0\d elapsed\n", said)
    table = (folder / "comparison.txt").read_text()
    assert table in said and "held-out reward, agent 0 (eval/score/agent_0)" in table
    assert "5.300 ± 7.071" in table and "+0.200" in table
    assert "to go on" not in said and "not finished" not in said
    assert f"python -m cory.report.compare {folder} --curves curves.png\n" in said
    rows = (folder / "comparison.csv").read_text().splitlines()
    assert rows[0].startswith("metric,group,seeds,mean") and len(rows) == 3


def test_runs_that_differ_in_what_changes_no_result_are_left_out_with_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress, folder = Progress(), Path("outputs/adhoc/2026-01-31_12-00-00")
    with told_at_the_end(progress):
        progress.jobs, progress.folder = 2, folder
        for number, size in enumerate(("32", "64"), 1):
            values = {"hardware.microbatch_size": size}
            job = progress.job(number, values, f"microbatch_size={size}")
            job.run_dir = run(folder / size, 0.1, 0, 1.0)
            progress.say_end(job, FINISHED)
    note = "left out: 1 of runs with equal settings and seed"
    assert note in capsys.readouterr().out.splitlines()
    assert note in (folder / "comparison.txt").read_text()


def test_what_is_missing_is_told_with_the_command_that_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["-m", "seed=0,1", "algorithm.kl_coef=0.1,0.3", "task.template='{prompt} x'"]
    keep_typed(words)
    folder = Path("outputs/adhoc/2026-01-31_12-00-00")
    played(Progress(), folder, FINISHED, FAILED, REFUSED, STOPPED, jobs_in_all=6)
    said = capsys.readouterr().out.splitlines()
    head = "sweep over: 1 of 6 jobs finished, 1 failed, 1 refused, 1 stopped, 2 never begun; "
    assert any(re.fullmatch(rf"{head}0:0\d elapsed", line) for line in said)
    place = said.index("not finished:")
    assert said[place + 1 : place + 5] == [
        f"  job 2: kl_coef=0.1 seed=1 failed in {folder}/kl_coef0.1_seed1: why",
        "  job 3: kl_coef=0.3 seed=0 refused",
        f"  job 4: kl_coef=0.3 seed=1 stopped in {folder}/kl_coef0.3_seed1",
        "to go on (finished runs are not repeated):",
    ]
    command = said[place + 5].strip()
    assert command.startswith("python -m cory.train -m ")
    assert shlex.split(command)[3:] == [*words, f"hydra.sweep.dir={folder}"]
    assert not (folder / "comparison.txt").exists()  # of one run


def test_a_folder_that_was_chosen_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    keep_typed(["-m", "seed=0,1", "hydra.sweep.dir=2026-01-31_12-00-00"])
    played(Progress(), Path("2026-01-31_12-00-00"), FAILED, jobs_in_all=2)
    assert capsys.readouterr().out.count("hydra.sweep.dir=") == 1


@pytest.mark.slow
def test_a_sweep_with_a_name_shares_its_folder(capsys: pytest.CaptureFixture[str]) -> None:
    keep_typed(["sweep=cory/fig3", "scale=small"])
    folder = Path("outputs/runs/small/paper")
    progress = Progress(sweep="cory/fig3")
    played(progress, folder, FINISHED, FINISHED, FAILED, jobs_in_all=3)
    said = capsys.readouterr().out
    assert (folder / "comparison_cory-fig3.txt").exists()
    assert "  python -m cory.train sweep=cory/fig3 scale=small\n" in said
    assert "cory.report.compare" not in said


def test_the_end_is_told_also_after_a_failure_and_never_of_a_single_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = Progress()
    with pytest.raises(ValueError, match="of a job"), told_at_the_end(progress):
        progress.say_end(progress.job(1, {}, "seed=0"), FAILED)
        raise ValueError("of a job")
    assert "sweep over: 0 of 1 jobs finished, 1 failed" in capsys.readouterr().out
    with told_at_the_end(progress):
        pass
    assert capsys.readouterr().out == ""
    with pytest.raises(KeyboardInterrupt), told_at_the_end(progress):
        progress.say_end(progress.job(1, {}, "seed=0"), FINISHED)
        raise KeyboardInterrupt
    assert "sweep over" not in capsys.readouterr().out
