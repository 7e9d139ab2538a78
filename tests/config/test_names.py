"""conf/sweeps: the runs behind tables and figures, and the words that they stand for."""

from itertools import product
from pathlib import Path

import pytest

from cory.config import ConfigError, read_sweep
from tests.support.composing import jobs, options, parsed, runs_at

FORM = "seeds: {{paper: [0, 1], small: [2]}}\nruns:\n  a: {a}\n  b: k=2\nsweeps:\n  s: {s}\n"


def written(folder: Path, a: str = "k=1", s: str = "{runs: [a, b]}") -> list[Path]:
    (folder / "sweeps").mkdir()
    (folder / "sweeps" / "x.yaml").write_text(FORM.format(a=a, s=s))
    return [folder]


def test_a_sweep_lists_runs_and_seeds(tmp_path: Path) -> None:
    sweep = read_sweep("x/s", "paper", written(tmp_path))
    assert sweep.runs == {"x/a": ["k=1"], "x/b": ["k=2"]} and sweep.seeds == [0, 1]
    assert read_sweep("x/s", "small", [tmp_path]).seeds == [2]
    assert list(read_sweep("x/s", "paper", [tmp_path], ["b"]).runs) == ["x/b"]


def test_a_scale_has_its_own_words_runs_and_seeds(tmp_path: Path) -> None:
    a = "{words: experiment=e +k.l=1 m=2, small: k.l=3}"
    written(tmp_path, a, "{runs: [a, b], small: {runs: [a], seeds: [7]}}")
    small = read_sweep("x/s", "small", [tmp_path])
    assert small.runs == {"x/a": ["experiment=e", "k.l=3", "m=2"]} and small.seeds == [7]
    assert read_sweep("x/s", "paper", [tmp_path]).runs["x/a"] == ["experiment=e", "+k.l=1", "m=2"]


@pytest.mark.parametrize(
    ("scale", "s", "said"),
    [
        ("medium", "{runs: [a]}", "no form at scale=medium, only at paper, small"),
        ("small", "{runs: [a], scales: [paper]}", "at scale=small, only at paper"),
        ("paper", "{runs: [c]}", "sweeps.s names c, not among runs"),
        ("paper", "[a]", r"x.yaml: sweeps.s=\[a\]: Input should be a valid dictionary$"),
        ("paper", "{seeds: [0]}", "x.yaml: sweeps.s.runs: no value given$"),
        ("paper", "{runs: [a], seed: [0]}", "x.yaml: sweeps.s.seed is not a setting"),
        ("small", "{runs: [a], seeds: {paper: [0]}}", "x.yaml: seeds has none of scale=small$"),
    ],
)
def test_what_there_is_not_is_refused(scale: str, s: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        read_sweep("x/s", scale, written(tmp_path, s=s))


def test_words_are_split_outside_quotes(tmp_path: Path) -> None:
    folders = written(tmp_path, a="\"k=1 t='Q: {p} A:' l=[a, b]\"".replace(", ", ","))
    assert read_sweep("x/s", "paper", folders).runs["x/a"] == ["k=1", "t='Q: {p} A:'", "l=[a,b]"]


@pytest.mark.parametrize("sweep", options("sweep"))
def test_every_sweep_runs_all_its_runs_with_the_same_seeds(sweep: str) -> None:
    for scale in ("paper", "small"):
        try:
            found = jobs(sweep, scale)
        except ConfigError:
            assert scale == "small" and sweep.startswith(("maft/", "spag/"))
            continue
        names = {name for name, _ in found}
        seeds = {seed for _, seed in found}
        assert sorted(found) == sorted(product(names, seeds)) and len(seeds) in (3, 5)


def test_no_two_runs_are_the_same() -> None:
    words = {name: tuple(sorted(own)) for name, own in runs_at("paper").items()}
    same = [name for name in words if list(words.values()).count(words[name]) > 1]
    assert len(words) > 200 and {name.partition("/")[0] for name in same} <= {"maporl"}, same


def test_the_mean_of_scores_has_the_objective_of_their_sum() -> None:
    """Up to a factor: scores and KL penalty are divided by the same number."""
    summed, mean = (parsed(f"experiment=cory/credit_{one}").algorithm for one in ("sum", "mean"))
    assert (summed.credit, mean.credit) == ("all", "mean")
    assert mean.kl_coef * mean.agents == summed.kl_coef


def test_a_run_starts_from_another_of_the_same_scale_and_seed() -> None:
    small = parsed("experiment=maporl/gsm8k_from_anli", "scale=small", "seed=2")
    assert small.init_from == "outputs/runs/small/paper/maporl/anli_maporl_zero/seed2"
    printed = parsed("experiment=maporl/anli_from_gsm8k", "seed=1")
    assert printed.init_from == "outputs/runs/paper/paper/maporl/gsm8k_maporl/seed1"
