"""The jobs of a sweep: how many, what varies between them, and what their folders are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from cory.config import ConfigError
from cory.runtime.sweeps import jobs
from cory.runtime.sweeps.jobs import (
    choices,
    folder_of,
    for_the_jobs,
    job_words,
    keep_typed,
    name_of,
    of_this_scale,
    varied,
    varied_settings,
)
from tests.support.composing import CONF
from tests.support.warm import WarmCommand

BASIC = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"


@pytest.fixture(autouse=True)
def _own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(jobs.TYPED, "[]")


def sweeper(target: str = BASIC, **params: str) -> Any:
    return OmegaConf.create({"_target_": target, "params": params or None})


def hydras(*task: str, number: int = 0, **params: str) -> Any:
    return OmegaConf.create(
        {
            "sweeper": sweeper(**params),
            "overrides": {"task": list(task)},
            "job": {"num": number},
        }
    )


def test_a_typed_word_replaces_the_one_that_the_sweep_lists() -> None:
    keep_typed(["sweep=x", "seed=0,1", "algorithm.kl_coef=0.1,0.3", "-m", "--config-dir=a,b"])
    own = sweeper(experiment="a,b", seed="0,1,2")
    assert choices(own) == {
        "experiment": ["experiment=a", "experiment=b"],
        "seed": ["seed=0", "seed=1"],
        "sweep": ["sweep=x"],
        "algorithm.kl_coef": ["algorithm.kl_coef=0.1", "algorithm.kl_coef=0.3"],
    }
    words = job_words(own)
    assert words is not None and len(words) == 8
    assert words[1] == ["experiment=a", "seed=0", "sweep=x", "algorithm.kl_coef=0.3"]
    assert job_words(sweeper("some.OptunaSweeper")) is None


def test_what_is_typed_beside_a_sweep_of_experiments_is_for_its_jobs() -> None:
    folder = ["sweep=cory/fig3", "scale=small", "seed=0,1", "hydra.sweep.dir=x", "--cfg", "job"]
    typed = ["algorithm.endpoint.model=gpt-x", "wandb.notes='it\\'s, ${oc.env:X}'", "+a@b.c=null"]
    *kept, listed = for_the_jobs([*folder, *typed])
    assert kept == folder
    (override,) = OverridesParser.create().parse_overrides([listed])
    own = OmegaConf.create({"params": override.value(), "_target_": BASIC})
    assert job_words(own) == [typed]
    assert for_the_jobs(typed) == typed


@pytest.mark.slow
def test_settings_that_the_quickstart_lacks_reach_the_jobs_of_a_sweep(tmp_path: Path) -> None:
    words = ["-m", "experiment=maft/gpt35_arithmetic_base,maft/gpt35_math_base"]
    command = WarmCommand(tmp_path, [*words, "algorithm.endpoint.parallel=0"])
    assert command.wait() == 1
    refused = "error: algorithm.endpoint.parallel must be at least 1, got 0"
    assert command.err.splitlines()[::2] == [refused] * 2, command.err
    command = WarmCommand(tmp_path, [*words, "algorithm.swap_every=1"])
    assert command.wait() == 1
    said = "error: algorithm.swap_every is not a setting of every run of this sweep"
    assert command.err.startswith(said) and command.err.count("\n") == 1, command.err


def test_what_varies_is_told_with_its_value_in_this_job() -> None:
    keep_typed(["algorithm.kl_coef=0.1,0.3", "seed=1", "+model@partner=tiny,tiny_2x"])
    task = ("algorithm.kl_coef=0.3", "seed=1", "+model@partner=tiny_2x", "algorithm.epochs=4")
    values = varied(hydras(*task))
    assert values == {"algorithm.kl_coef": "0.3", "model@partner": "tiny_2x"}
    assert name_of(values) == "kl_coef=0.3 model@partner=tiny_2x"
    keep_typed(["algorithm.learning_rate=tag(log, interval(1e-5, 1e-3))"])
    assert varied(hydras("algorithm.learning_rate=0.0002")) == {"algorithm.learning_rate": "0.0002"}


def test_a_job_is_called_by_its_experiment_and_what_else_varies() -> None:
    assert name_of({"experiment": "cory/imdb_ppo", "seed": "0"}) == "cory/imdb_ppo seed=0"


def test_folders_are_named_by_what_varies() -> None:
    values = {"algorithm": "ppo", "algorithm.kl_coef": "0.3", "seed": "0"}
    assert folder_of(values) == "algorithm-ppo_kl_coef0.3_seed0"
    assert folder_of({"algorithm.learning_rate": "1e-05"}) == "learning_rate1e-05"
    assert folder_of({"experiment": "cory/imdb_ppo"}) == "experiment-cory-imdb_ppo"
    # a hash, as what has a dash in its place is another folder
    assert folder_of({"init_from": "jobs/0"}) == "init_from-jobs-0-2d3748a2"
    assert folder_of({"init_from": "jobs-0"}) == "init_from-jobs-0"


def test_no_two_folders_become_the_same() -> None:
    long = "x" * 300
    values = ["[a,b]", "[a;b]", "a b", "ä b", long, long + "y", "a/b/c", "a/b-c", "a-b-c"]
    names = {folder_of({"task.kinds": value}) for value in values}
    assert len(names) == len(values)
    assert all(len(name) < 140 and set(name) <= set("-_.+") | set(_letters()) for name in names)


def _letters() -> str:
    return "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def test_a_folder_can_be_typed_without_quotes() -> None:
    for value in ("0.3", "-1", "[a,b]", "a=b", "a b", "~x", "null"):
        folder = f"outputs/adhoc/{folder_of({'task.path': value, 'seed': '0'})}"
        (word,) = OverridesParser.create().parse_overrides([f"init_from={folder}"])
        assert word.value() == folder


def test_where_nothing_varies_the_job_is_numbered() -> None:
    root = OmegaConf.create({"hydra": hydras("seed=0", number=3)})
    assert varied_settings(_root_=root) == "3"
    assert varied_settings("seed", _root_=root) == ""


def test_settings_that_the_path_names_are_left_out() -> None:
    keep_typed(["seed=0,1", "algorithm.kl_coef=0.1,0.3", "experiment=a,b"])
    task = ("seed=1", "algorithm.kl_coef=0.3", "experiment=b")
    root = OmegaConf.create({"hydra": hydras(*task)})
    assert varied_settings(_root_=root) == "seed1_kl_coef0.3_experiment-b"
    assert varied_settings("experiment", "seed", _root_=root) == "kl_coef0.3/"


def test_a_scale_has_a_form_of_a_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sweep=maft/fig1", "scale=small", "seed=0"]
    assert of_this_scale(words, [CONF]) == ["sweep=maft/fig1_small", "scale=small", "seed=0"]
    assert capsys.readouterr().out == "sweep=maft/fig1 at scale=small is sweep=maft/fig1_small\n"
    for others in (["sweep=maft/fig1"], ["sweep=cory/credit", "scale=small"], ["scale=small"]):
        assert of_this_scale(others, [CONF]) == others
    # a question of ours has one form at all scales; a table whose runs would be another's has none
    ours = ["sweep=maft/critics", "scale=small"]
    assert of_this_scale(ours, [CONF]) == ours
    refused = r"^sweep=maft/tab7 has no form at scale=small, only at paper: At small"
    with pytest.raises(ConfigError, match=refused):
        of_this_scale(["sweep=maft/tab7", "scale=small"], [CONF])
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "mine_small.yaml").touch()
    mine = ["sweep=mine", "scale=small"]
    assert of_this_scale(mine, [CONF, tmp_path]) == ["sweep=mine_small", "scale=small"]
