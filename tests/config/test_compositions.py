"""Stored configs are those that Hydra would compose now."""

from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from cory.runtime.hydra_setup import compose
from tests.support.composing import compose_config, options, run_for


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("seed=3", "algorithm=ppo", "algorithm.kl_coef=1e-3", "experiment=cory/imdb_ppo"),
        ("+algorithm.more.still=1", "++seed=4", "~evaluation.probes"),
        ("evaluation.probes=[a,'b, c']", "task.observer_template='\"{answers}\" {query}'"),
        ("evaluation={prompts: 3}", "task.min_characters=${seed}", "hydra.job.name=x"),
        *((f"experiment={name}", "seed=3") for name in options("experiment")[::75]),
    ],
)
def test_values_are_set_as_hydra_sets_them(words: tuple[str, ...]) -> None:
    compose_config(*words)
    stored, composed = compose_config(*words), compose(*run_for(words))
    assert stored == composed and OmegaConf.is_struct(stored)
    assert OmegaConf.to_yaml(stored) == OmegaConf.to_yaml(composed)
