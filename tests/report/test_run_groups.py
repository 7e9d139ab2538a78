"""Runs are pooled over seeds alone, and named by what differs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from cory.report.run_groups import find_runs, group_runs, without_repeats
from tests.support.composing import compose_config

Written = Callable[..., Path]


@pytest.fixture
def run(tmp_path: Path) -> Written:
    """Writes the settings of a run that was started with these words."""
    numbers = itertools.count()

    def write(*words: str) -> Path:
        run_dir = tmp_path / f"run_{next(numbers)}"
        run_dir.mkdir()
        OmegaConf.save(compose_config(f"run_dir={run_dir}", *words), run_dir / "config.yaml")
        (run_dir / "metrics.jsonl").write_text("")
        (run_dir / "record.json").write_text("{}")
        return run_dir

    return write


def names(*runs: Path) -> list[str]:
    """The name of every run's group; runs of a group are those given with the same name."""
    groups = group_runs(runs)
    assert sorted(itertools.chain(*groups.values())) == sorted(runs)
    return [next(name for name, own in groups.items() if run in own) for run in runs]


def test_seeds_are_pooled_and_nothing_else(run: Written) -> None:
    runs = [run(f"seed={seed}", f"algorithm.kl_coef={eta}") for eta in (0.1, 0.3) for seed in "01"]
    assert names(*runs) == ["kl_coef=0.1"] * 2 + ["kl_coef=0.3"] * 2


def test_what_changes_no_result_parts_no_runs(run: Written) -> None:
    runs = [run(), run("seed=1", "hardware=cpu2", "wandb.mode=offline", "checkpoint_every=3")]
    assert names(*runs) == ["quickstart"] * 2
    assert names(run("experiment=cory/imdb_ppo", "scale=small")) == ["cory/imdb_ppo (small)"]


@pytest.mark.slow
def test_a_name_settles_the_settings_that_come_with_it(run: Written) -> None:
    """CORY has settings that PPO does not have, and names nothing by them."""
    assert names(run(), run("algorithm=ppo")) == ["cory", "ppo"]
    pair = run("experiment=cory/imdb_ppo"), run("experiment=cory/imdb_cory")
    assert names(*pair) == ["cory/imdb_ppo", "cory/imdb_cory"]
    assert names(run(), run("scale=small")) == ["paper", "small"]


@pytest.mark.slow
def test_what_differs_within_a_name_is_told_beside_it(run: Written) -> None:
    runs = [run(*words) for words in ((), ("algorithm.agents=3",), ("algorithm=ppo",))]
    assert names(*runs) == ["cory, agents=2", "cory, agents=3", "ppo"]
    both = [run("algorithm.kl_coef=0.1", "task.min_characters=9"), run("algorithm.kl_coef=0.3")]
    assert names(*both) == ["kl_coef=0.1, min_characters=9", "kl_coef=0.3, min_characters=200"]


@pytest.mark.slow
def test_another_partner_is_named_by_its_name(run: Written) -> None:
    words = "algorithm=maporl", "task=arithmetic", "reward=exact_match"
    runs = [run(*words, f"+model@partner={partner}") for partner in ("tiny_2x", "tiny_math")]
    assert names(*runs) == ["tiny_2x", "tiny_math"]


def test_products_in_another_precision_are_another_group(run: Written) -> None:
    runs = [run(f"model.compute_precision={products}") for products in ("fp32", "bf16")]
    assert names(*runs) == ["compute_precision=fp32", "compute_precision=bf16"]


@pytest.mark.slow
def test_of_a_run_that_was_made_twice_the_last_one_counts(run: Written) -> None:
    runs = [run(), run("seed=1"), run(), run("algorithm=ppo")]
    groups, repeated = without_repeats(group_runs(runs))
    assert (groups, repeated) == ({"cory": [runs[2], runs[1]], "ppo": [runs[3]]}, 1)


def test_runs_are_found_once_below_their_folder(run: Written, tmp_path: Path) -> None:
    runs = [run(), run("seed=1")]
    assert find_runs([runs[1], tmp_path], False) == ([runs[1], runs[0]], [])
    (runs[1] / "record.json").unlink()
    assert find_runs([tmp_path], False) == ([runs[0]], [runs[1]])
    assert find_runs([tmp_path], True) == (runs, [])
    with pytest.raises(ValueError, match=r"run_1 has no metrics\.jsonl and record\.json, nor has "):
        find_runs([runs[1]], False)
    (runs[0] / "metrics.jsonl").unlink()
    assert find_runs([tmp_path], True) == ([runs[1]], [runs[0]])
    with pytest.raises(ValueError, match=r"run_0 has no metrics\.jsonl, nor has any other run$"):
        find_runs([runs[0]], True)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty holds no run"):
        find_runs([tmp_path / "empty"], False)


def test_values_that_look_alike_in_short_are_not_pooled(run: Written) -> None:
    rates = ("0.000123456789", "0.000123456788")
    runs = [run(f"algorithm.learning_rate={rate}") for rate in rates]
    assert names(*runs) == [f"learning_rate={float(rate)}" for rate in rates]
