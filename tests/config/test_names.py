"""conf/names.yaml: names of experiments, and the words that they stand for."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from cory.config import (
    ConfigError,
    experiment_names,
    named_experiments,
    named_options,
    parse_config,
    small_file,
)
from cory.config.names import listed
from tests.support.composing import CONF, compose_config, jobs, leaves, options, parsed

NAMED = named_experiments(CONF)
METHODS = ("maft", "base", "majority_ft", "single", "star")
# at the paper's scale what they start from: the files of conf/experiment/maft have this model and
# task, and the judge of gsm8k_maporl is another one at scale=small only
SAME = {*(f"maft/phi3_arithmetic_{m}" for m in METHODS), "maporl/gsm8k_maporl_verifier"}
ONE_OF_EACH_KIND = {  # a name -> the same, typed; of every form that an entry can have
    "cory/gsm8k_ppo_lr1e-6_eta2e-1": [
        *("experiment=cory/gsm8k_ppo", "+evaluation=curves", "evaluation.probes=[]"),
        *("algorithm.learning_rate=1e-6", "algorithm.kl_coef=0.2"),
    ],
    "maft/mistral_gsm_star": [
        *("experiment=maft/star", "model=mistral_7b", "task=gsm8k_maft", "+maft_rates=mistral_7b"),
        "algorithm.later_learning_rate=null",
    ],
    "maporl/gsm8k_hetero_llama": ["experiment=maporl/gsm8k_hetero_qwen", "model@partner=llama3_8b"],
    "maporl/gsm8k_from_anli": [
        "experiment=maporl/gsm8k_untrained",
        "init_from=outputs/runs/paper/paper/maporl/anli_maporl/seed0",
    ],
    "spag/llama2_spag_3": [
        *("experiment=spag/llama2_spag_1", "init_from=${run:spag/llama2_spag_2}"),
        "+algorithm.opponents.spag_1=${run:spag/llama2_spag_1}",
        "+algorithm.opponents.spag_2=${run:spag/llama2_spag_2}",
    ],
}


@pytest.mark.parametrize("name", ONE_OF_EACH_KIND)
def test_a_name_is_what_its_words_are_when_typed(name: str) -> None:
    typed = compose_config(*ONE_OF_EACH_KIND[name])
    typed.experiment = name
    assert compose_config(f"experiment={name}") == typed


def plain(name: str) -> tuple[str, dict[str, str]]:
    """The file that a name comes down to, and its words, those of the names between included."""
    if name not in NAMED:
        return name, {}
    base, words = plain(NAMED[name].base)
    return base, words | dict(word.split("=", 1) for word in NAMED[name].words)


def test_no_two_names_are_the_same_run() -> None:
    assert len(NAMED) > 200 and len(options("experiment")) > 240
    found: dict[str, str] = {}
    for name in NAMED:
        base, words = plain(name)
        del words["experiment"]
        key = f"{base} {sorted(words.items())}"
        assert key not in found, (name, found.get(key))
        found[key] = name


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMED)
def test_every_word_of_a_name_is_heard(name: str) -> None:
    """None is overruled by another; together they make another run of what they start from."""
    cfg = compose_config(f"experiment={name}")
    values = [word for word in NAMED[name].words if not (CONF / key_of(word)).is_dir()]
    meant = OmegaConf.merge(
        {"scale": "paper", "fidelity": "paper", "seed": 0}, OmegaConf.from_dotlist(values)
    )
    assert isinstance(meant, DictConfig)
    for key, value in leaves(meant).items():
        assert OmegaConf.select(cfg, key) == value, key
    base = compose_config(f"experiment={NAMED[name].base}")
    base.experiment = name
    assert (cfg != base) == (name not in SAME)


def key_of(word: str) -> str:
    return word.lstrip("+").partition("=")[0].partition("@")[0]


@pytest.mark.slow
def test_a_name_goes_where_a_file_goes(tmp_path: Path) -> None:
    """Below an experiment of one's own; and what is typed beats what it says."""
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment/mine.yaml").write_text(
        "# @package _global_\ndefaults:\n  - /experiment/cory/imdb_ppo_xl\n  - _self_\nseed: 3\n"
    )
    mine = parsed(f"hydra.searchpath=[file://{tmp_path}]", "experiment=mine")
    assert (mine.seed, mine.model.name, mine.evaluation.probes) == (3, "gpt2_xl", [])
    typed = parsed("experiment=cory/gsm8k_ppo_eta1e-3", "algorithm.kl_coef=0.5", "model=tiny_math")
    assert (typed.algorithm.kl_coef, typed.model.name) == (0.5, "tiny_math")
    assert typed.experiment == "cory/gsm8k_ppo_eta1e-3"


@pytest.mark.slow
def test_the_small_form_is_that_of_what_a_name_starts_from_unless_it_has_its_own() -> None:
    iters = parsed("experiment=maft/llama3_mathall_iters", "scale=small")
    assert iters.algorithm.diversity.encoder == "asset:tiny_steps"
    alpaca = parsed("experiment=spag/llama2_alpaca_2", "scale=small").algorithm
    assert (alpaca.games, alpaca.iterations) == ("none", 10)  # of llama2_alpaca_1, its own
    words = parsed("experiment=spag/llama2_im_words_15k", "scale=small")
    assert (words.task.train_words, words.algorithm.prompts_per_iteration) == (4, 83)
    folder = CONF / "small" / "experiment"
    assert small_file(CONF, "maft/llama3_mathall_iters") == folder / "maft/iterations.yaml"
    assert not small_file(CONF, "cory/imdb_ppo_xl").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x: experiment=a/file\n'{n}': {is: experiment=a/file, each: [{n: [x]}]}", "x is there tw"),
        ("a/x: experiment=a/file\na/x: experiment=a/file", "a/x is there twice"),
        ("a/file: experiment=a/file", "a/file is also a file of conf/experiment"),
        ("a/small: experiment=a/file", "a/small is also a file of conf/small/experiment"),
        ("a/x: experiment=a/nope", "a/x is experiment=a/nope, which there is not"),
        ("a/x: model=tiny", "a/x must be one experiment, got []"),
        ("a/x: experiment=a/{m}", "nothing is said of {m} in 'experiment=a/{m}'"),
    ],
)  # fmt: skip
def test_an_entry_that_cannot_be_is_refused(text: str, said: str, tmp_path: Path) -> None:
    for file in ("experiment/a/file", "small/experiment/a/small"):
        (tmp_path / f"{file}.yaml").parent.mkdir(parents=True)
        (tmp_path / f"{file}.yaml").write_text("{}\n")
    (tmp_path / "names.yaml").write_text(text)
    with pytest.raises(ConfigError) as refused:
        named_experiments(tmp_path)
    assert str(refused.value).startswith("conf/names.yaml: ") and said in str(refused.value)


def test_templates_take_every_combination(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment/f.yaml").write_text("{}\n")
    (tmp_path / "names.yaml").write_text(
        "a_{m}_{n}: {is: 'experiment=f k={m} run=${run:f_{n}}',"
        " each: [[{m: x}, {m: y}], {n: [1e-5, 2]}]}\n"
    )
    assert {name: one.words[1:] for name, one in named_experiments(tmp_path).items()} == {
        f"a_{m}_{n}": (f"k={m}", f"run=${{run:f_{n}}}") for m in "xy" for n in ("1e-5", "2")
    }
    assert experiment_names(tmp_path) == ["a_x_1e-5", "a_x_2", "a_y_1e-5", "a_y_2", "f"]
    assert named_experiments(tmp_path / "none") == {} == named_options(tmp_path / "none")


def test_a_key_that_is_added_is_a_key_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment/f.yaml").write_text("{}\n")
    (tmp_path / "names.yaml").write_text("x: experiment=f +a.b=1 ++a.c=2 a.d=3\n")
    contents = named_options(tmp_path)["experiment/x"].contents()
    assert contents["a"] == {"b": 1, "c": 2, "d": 3} and set(contents) == {"defaults", "a"}


def test_the_mean_of_scores_has_the_objective_of_their_sum() -> None:
    """Up to a factor: scores and KL penalty are divided by the same number."""
    summed, mean = (parsed(f"experiment=cory/credit_{one}").algorithm for one in ("sum", "mean"))
    assert (summed.credit, mean.credit) == ("all", "mean")
    assert mean.kl_coef * mean.agents == summed.kl_coef


@pytest.mark.slow
def test_a_run_starts_from_another_of_the_same_scale_and_seed() -> None:
    small = parsed("experiment=maporl/gsm8k_from_anli", "scale=small", "seed=2")
    assert small.init_from == "outputs/runs/small/paper/maporl/anli_maporl_zero/seed2"
    printed = parsed("experiment=maporl/anli_from_gsm8k", "seed=1")
    assert printed.init_from == "outputs/runs/paper/paper/maporl/gsm8k_maporl/seed1"


def test_a_sweep_lists_a_product() -> None:
    assert listed("a{1,2}", "b_{x,y}{,_z}") == "a1,a2,b_x,b_x_z,b_y,b_y_z"
    assert len(jobs("maft/tab1")) == (3 + 2 * 3 * 4 + 3 * 3) * 3
    names = [job[1] for job in jobs("cory/fig2")][::3]
    assert names[2:5] == [
        f"experiment=cory/gsm8k_{one}" for one in ("ppo_eta1e-3", "ppo", "cory_eta1e-5")
    ]


def test_a_name_is_a_run_that_is_refused_as_others_are() -> None:
    with pytest.raises(ConfigError, match="clip_range must lie in"):
        parse_config(compose_config("experiment=cory/imdb_ppo_xl", "algorithm.clip_range=2"))


@pytest.mark.slow
def test_help_fits_a_screen_and_names_every_option() -> None:
    said = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "cory.train", "--help"],
        capture_output=True, text=True, check=True, cwd=CONF.parent,
    )  # fmt: skip
    lines = said.stdout.splitlines()
    assert len(lines) <= 45 and max(map(len, lines)) <= 100
    words = set(re.split(r"[\s:;,]+", said.stdout))
    groups = ("model", "task", "algorithm", "advantages", "reward", "hardware", "scale", "fidelity")
    for group in groups:
        assert {group, *options(group)} <= words, group
    sweeps = {name for name in options("sweep") if not name.endswith(("_small", "_medium"))}
    sweeps.remove("adhoc")
    assert {name.partition("/")[2] for name in sweeps} <= words
    assert {f"{name.partition('/')[0]}/" for name in sweeps} <= words
    assert not any("maft/phi3" in line or "small/" in line for line in lines)
    imported = {line.rpartition("|")[2].strip() for line in said.stderr.splitlines()}
    assert "hydra" in imported and not {"torch", "transformers", "deepspeed"} & imported
