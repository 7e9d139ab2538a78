"""CORY's experiments have what tables 1 and 2 print; any paper's preset is what its files say."""

from typing import Any

import pytest
from omegaconf import OmegaConf

from cory.config import parse_config
from tests.support.composing import CONF, compose_config, composed, leaves

IMDB = ["cory/imdb_ppo", "cory/imdb_ppo_xl", "cory/imdb_cory"]
GSM8K = ["cory/gsm8k_ppo", "cory/gsm8k_13b_ppo", "cory/gsm8k_cory"]
RATES = (1e-5, 1e-5, 1e-4)
# Of table 1, the same for all three: mini batches of 256, accumulated once; no early stopping.
# `Epochs` (1) counts passes over the data; every iteration samples anew here.
ALL = {
    "iterations": 100,
    "gamma": 1,
    "gae_lambda": 0.95,
    "clip_range": 0.2,
    "value_clip_range": 0.2,
    "value_coef": 0.1,
}
TABLE_1 = {
    **ALL,
    "learning_rate": 1.41e-5,
    "epochs": 4,
    "prompts_per_iteration": 256,
    "minibatch_size": 256,
    "kl_coef": 0.3,
}
TABLE_2 = {**ALL, "prompts_per_iteration": 32, "minibatch_size": 2 * 16, "kl_coef": 0.01}
ROWS = [
    *((name, TABLE_1) for name in IMDB),
    *((name, {**TABLE_2, "learning_rate": rate}) for name, rate in zip(GSM8K, RATES, strict=True)),
]


@pytest.mark.parametrize(("experiment", "printed"), ROWS, ids=[name for name, _ in ROWS])
def test_printed_settings(experiment: str, printed: dict[str, Any]) -> None:
    cfg = compose_config(f"experiment={experiment}", "scale=paper")
    found = {key: OmegaConf.select(cfg, f"algorithm.{key}") for key in printed}
    assert found == printed
    swaps = 5 if experiment.endswith("_cory") else None
    assert OmegaConf.select(cfg, "algorithm.swap_every") == swaps
    if experiment in GSM8K:
        assert cfg.hardware.microbatch_size == 2


# an experiment, the preset, and the files that say how the released code differs from the paper
PRESETS = [
    ("cory/imdb_cory", "official_cory", ("fidelity/official", "fidelity/official_cory")),
    ("cory/imdb_ppo", "official_ppo", ("fidelity/official", "fidelity/official_ppo")),
    ("maft/phi3_math_maft", "official_maft", ("fidelity/official_maft",)),
    ("maporl/gsm8k_maporl", "official_maporl", ("released/official_maporl_maporl",)),
    ("maporl/verifier_gsm8k", "official_maporl", ("released/official_maporl_verifier",)),
    ("spag/llama2_im", "official_spag", ("released/official_spag_imitation",)),
    (
        "spag/llama2_spag_1",
        "official_spag",
        ("released/official_spag_imitation", "released/official_spag_spag"),
    ),
]
# those of other runs, of the same fidelity
OF_RUNS = {"fidelity", "init_from", "reward.path", "algorithm.opponents.im"}


@pytest.mark.parametrize(("experiment", "preset", "files"), PRESETS)
def test_a_preset_changes_what_its_files_say_and_nothing_else(
    experiment: str, preset: str, files: tuple[str, ...]
) -> None:
    said = leaves(OmegaConf.merge(*(OmegaConf.load(CONF / f"{file}.yaml") for file in files)))
    said.pop("defaults", None)
    plain, other = (
        composed(f"experiment={experiment}", *more) for more in ((), (f"fidelity={preset}",))
    )
    parse_config(other)
    before, after = leaves(plain), leaves(other)
    assert {key: after[key] for key in said} == said
    assert {key for key in before if after[key] != before[key]} <= said.keys() | OF_RUNS
