"""How long a run will take, from runs of the same experiment or of the same kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cory.report.records.archive import Archived
from cory.report.records.gather import load_run

from cory.config import Config, parse_config
from cory.memory.operations import counted_operations
from cory.report.costs.durations import KINDS, MODEL, same_experiment, same_kind
from cory.runs.provenance import device_name
from tests.support.composing import compose_config
from tests.support.made_up_runs import lines_of, run_writer

HERE = device_name("cpu")
ASKED, KIN = "cory/imdb_ppo_k1", "cory/imdb_ppo"  # they differ in the estimator of the KL alone


def asked(experiment: str = ASKED) -> Config:
    return parse_config(compose_config(f"experiment={experiment}", "scale=small"))


def made(outputs: Path, experiment: str, seed: int, wall_s: float, **record: Any) -> Archived:
    """A finished run of 100 iterations."""
    settings = record.pop("settings", {})
    lines = lines_of(2, 20, 1, seed, record.pop("iterations", 100))
    run_dir = run_writer(outputs)(
        experiment, seed, lines, settings=settings, wall_s=wall_s, device=HERE, **record
    )
    return load_run(run_dir, experiment, "small")


@pytest.mark.slow
def test_runs_of_the_same_kind_tell_the_speed(tmp_path: Path) -> None:
    kin = [made(tmp_path, KIN, seed, wall, threads=1) for seed, wall in enumerate((100.0, 260.0))]
    assert same_experiment(asked(), Path("nowhere"), kin) is None
    known = same_kind(asked(), Path("nowhere"), kin, {})
    assert known is not None and known.seconds == pytest.approx(180)  # as many operations
    assert (known.measured, known.threads) == (False, 1)
    assert known.source.startswith("ESTIMATE, no record yet: ")
    assert known.source.endswith(f" of 2 runs on {HERE}, with the same algorithm and model")


@pytest.mark.slow
def test_seconds_go_with_operations(tmp_path: Path) -> None:
    shorter = {"algorithm.iterations": 50, "evaluation.prompts": 250, "evaluation.before": False}
    whole = made(tmp_path / "a", KIN, 0, 300.0, settings={"evaluation.before": False})
    half = made(tmp_path / "b", KIN, 1, 100.0, settings=shorter, iterations=50)
    config = asked()
    config.evaluation.before = False
    for kin, seconds in (([whole], 300), ([half], 200), ([whole, half], 400 / 1.5)):
        known = same_kind(config, Path("nowhere"), kin, {})
        assert known is not None and known.seconds == pytest.approx(seconds)


@pytest.mark.slow
def test_only_runs_that_agree_in_every_setting_of_the_kind_count(tmp_path: Path) -> None:
    kin = made(tmp_path, KIN, 0, 100.0)
    assert same_kind(asked(), Path("nowhere"), [kin], {}) is not None
    keys = [("hardware", "name"), ("model", "path"), ("model", "sharing")]
    keys += [("model", "quantisation"), ("model", "precision"), ("model", "compute_precision")]
    assert sorted(MODEL) == sorted(keys)
    assert list(KINDS.values()) == [(("algorithm", "name"), *MODEL), MODEL]
    for group, key in keys:
        assert same_kind(asked(), Path("nowhere"), [changed(kin, group, key)], {}) is None


def changed(run: Archived, group: str, key: str) -> Archived:
    """The run with another word in one of its settings."""
    group_settings = {**run.settings[group], key: "other"}
    return replace(run, settings={**run.settings, group: group_settings})


@pytest.mark.slow
def test_runs_of_another_algorithm_count_where_there_is_none_of_the_same(tmp_path: Path) -> None:
    kin = made(tmp_path / "a", KIN, 0, 100.0)
    other_kind = made(tmp_path / "b", "cory/imdb_cory", 0, 1.0)
    known = same_kind(asked("cory/imdb_cory"), Path("nowhere"), [kin], {})
    assert known is not None and known.source.endswith(f"1 run on {HERE}, with the same model")
    done, wanted = (counted_operations(asked(name), {})[0] for name in (KIN, "cory/imdb_cory"))
    assert known.seconds == pytest.approx(100 * wanted / done)
    known = same_kind(asked(), Path("nowhere"), [kin, other_kind], {})
    assert known is not None and known.seconds == pytest.approx(100)
    assert known.source.endswith("with the same algorithm and model")
    # the same algorithm elsewhere comes before another one here
    other = tmp_path / "c"
    made(other, "cory/imdb_cory", 0, 1.0)
    known = same_kind(asked(), other, [kin], {})
    assert known is not None and known.seconds == pytest.approx(100)


@pytest.mark.slow
def test_this_machines_runs_come_first_and_damaged_ones_do_not_count(tmp_path: Path) -> None:
    archived = [made(tmp_path / "elsewhere", KIN, 0, 100.0)]
    own = [made(tmp_path, KIN, seed, wall) for seed, wall in enumerate((40.0, 60.0))]
    known = same_kind(asked(), tmp_path, archived, {})
    assert known is not None and known.seconds == pytest.approx(40)  # one of each experiment
    folder = tmp_path / "runs" / "small" / "paper" / KIN
    (folder / f"seed{own[0].seed}" / "config.yaml").write_text("{")
    known = same_kind(asked(), tmp_path, archived, {})
    assert known is not None and known.seconds == pytest.approx(60)
    (folder / f"seed{own[1].seed}" / "record.json").unlink()
    known = same_kind(asked(), tmp_path, archived, {})
    assert known is not None and known.seconds == pytest.approx(100)


@pytest.mark.slow
def test_what_cannot_be_counted_is_not_known(tmp_path: Path) -> None:
    kin = made(tmp_path, KIN, 0, 100.0)
    without = {k: v for k, v in kin.settings.items() if k != "evaluation"}
    older = replace(kin, settings=without, experiment="cory/older")
    assert same_kind(asked(), Path("nowhere"), [older], {}) is None
    known = same_kind(asked(), Path("nowhere"), [older, kin], {})
    assert known is not None and known.seconds == pytest.approx(100)  # the older one adds nothing
    config = asked()
    config.model.path = "asset:nothing"
    settings = {**kin.settings, "model": {**kin.settings["model"], "path": "asset:nothing"}}
    assert same_kind(config, Path("nowhere"), [replace(kin, settings=settings)], {}) is None


@pytest.mark.slow
def test_runs_of_the_same_experiment_count_with_their_length(tmp_path: Path) -> None:
    runs = [made(tmp_path, ASKED, 0, 100.0), made(tmp_path, ASKED, 1, 20.0, iterations=50)]
    known = same_experiment(asked(), Path("nowhere"), runs)
    assert known is not None and (known.seconds, known.measured) == (100.0, True)
    assert known.source == f"measured: 1 run on {HERE}"
    assert same_experiment(asked(), tmp_path, []) == known
    elsewhere = made(tmp_path / "b", ASKED, 0, 70.0)
    elsewhere.record["device"] = "other"
    known = same_experiment(asked(), Path("nowhere"), [elsewhere])
    assert known is not None
    assert known.source == "measured: 1 run on other, which is not the device of this machine"


def test_a_shorter_run_here_hides_no_archived_run_of_the_full_length(tmp_path: Path) -> None:
    archived = made(tmp_path / "elsewhere", ASKED, 0, 70.0)
    made(tmp_path, ASKED, 0, 20.0, iterations=50)
    known = same_experiment(asked(), tmp_path, [archived])
    assert known is not None and known.seconds == 70.0
    made(tmp_path, ASKED, 1, 100.0)
    known = same_experiment(asked(), tmp_path, [archived])
    assert known is not None and known.seconds == 100.0


def test_a_damaged_run_stops_no_sweep(tmp_path: Path) -> None:
    for seed, wall in enumerate((100.0, 20.0)):
        made(tmp_path, ASKED, seed, wall)
    record = tmp_path / "runs" / "small" / "paper" / ASKED / "seed0" / "record.json"
    for damaged in ("{", "{}", "[]"):
        record.write_text(damaged)
        known = same_experiment(asked(), tmp_path, [])
        assert known is not None and known.seconds == 20
