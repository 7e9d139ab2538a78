"""What differs between runs, in short."""

from __future__ import annotations

from pathlib import Path

from omegaconf import OmegaConf

from cory.runs.differences import (
    read_varied,
    settings_of,
    short_keys,
    short_value,
    short_words,
    telling_keys,
    write_varied,
)


def test_the_seed_counts_neither_by_itself_nor_in_a_path(tmp_path: Path) -> None:
    def of(name: str, seed: int, **settings: object) -> dict[str, object]:
        run_dir = tmp_path / name
        run_dir.mkdir()
        OmegaConf.save(OmegaConf.create({"seed": seed, **settings}), run_dir / "config.yaml")
        return settings_of(run_dir)

    two = of("a", 2, init_from="runs/im/seed2", model={"path": "seed2", "width": 2})
    assert two == {"init_from": "runs/im/seed*", "model.path": "seed*", "model.width": 2}
    assert of("b", 3, init_from="runs/im/seed3", model={"path": "seed3", "width": 2}) == two
    other = of("c", 3, init_from="runs/im/seed2", model={"path": "seed31", "width": 2})
    assert other == {"init_from": "runs/im/seed2", "model.path": "seed31", "model.width": 2}


def test_keys_with_the_same_last_part_are_written_whole() -> None:
    keys = ["model.path", "reward.path", "algorithm.kl_coef"]
    assert short_keys(keys) == {
        "model.path": "model.path",
        "reward.path": "reward.path",
        "algorithm.kl_coef": "kl_coef",
    }
    settings = {"model.path": "a", "reward.path": "b", "algorithm.kl_coef": 0.3}
    assert short_words(settings, keys) == ["model.path=a", "reward.path=b", "kl_coef=0.3"]


def test_values_are_shortened_for_reading() -> None:
    assert short_value(0.00012538912) == "0.000125389"
    assert (short_value(1e-5), short_value(3), short_value(None)) == ("1e-05", "3", "None")
    long = "begins like this" + "x" * 80 + "and ends so"
    assert short_value(long).startswith("begins like this") and short_value(long).endswith("so")
    assert len(short_value(long)) == 40
    assert short_words({"a": 0.12345678}, ["a"], whole=True) == ["a=0.12345678"]


def test_a_setting_that_only_some_runs_have_tells_them_apart() -> None:
    runs = [{"experiment": "e", "a.b": 1, "a.c": 2}, {"experiment": "e", "a.b": 1}]
    assert telling_keys(runs) == ["a.c"]
    assert [short_words(run, ["a.c"]) for run in runs] == [["c=2"], []]


def test_a_name_goes_first_and_what_tells_no_more_is_left_out() -> None:
    runs = [{"experiment": e, "a.b": n, "a.c": n % 2} for e, n in (("e", 0), ("f", 1), ("f", 2))]
    assert telling_keys(runs) == ["experiment", "a.b"]


def test_a_run_of_a_sweep_keeps_what_varies(tmp_path: Path) -> None:
    assert read_varied(tmp_path) == {}
    varied = {"experiment": "cory/imdb_ppo", "algorithm.kl_coef": "0.3", "seed": "1"}
    write_varied(tmp_path, varied)
    assert read_varied(tmp_path) == varied
