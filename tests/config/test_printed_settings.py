"""CORY's experiments have the settings that tables 1 and 2 print, at the paper's scale."""

from __future__ import annotations

from typing import Any

import pytest
from omegaconf import OmegaConf

from tests.support.composing import compose_config

IMDB = ["cory/imdb_ppo", "cory/imdb_ppo_xl", "cory/imdb_cory"]
GSM8K = ["cory/gsm8k_ppo", "cory/gsm8k_13b_ppo", "cory/gsm8k_cory"]
RATES = (1e-5, 1e-5, 1e-4)
# Of table 1, the same for all three: mini batches of 256, accumulated once; no early stopping.
# `Epochs` (1) counts passes over the data; every iteration samples anew here.
ALL = {
    "iterations": 100,
    "stop.max_kl": None,
    "stop.max_ratio": None,
    "stop.min_entropy": None,
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
