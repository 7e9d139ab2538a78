"""`advantages=` as it is typed, in sweeps, and from experiments; and who refuses it."""

from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from cory.config import ConfigError
from cory.runs.run_dir import settings_digest
from tests.support.composing import CONF, compose_config, options, parsed

SAMPLES = {"gae": 1, "group": 8, "leave_one_out": 4, "batch": 1}


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
def test_an_estimator_is_chosen_by_a_word(name: str) -> None:
    assert set(options("advantages")) == set(SAMPLES)
    for algorithm in ("ppo", "cory", "maporl", "grpo", "rloo"):
        config = parsed(f"algorithm={algorithm}", f"advantages={name}").algorithm
        assert (config.advantages, config.samples_per_prompt) == (name, SAMPLES[name])
        assert config.prompts_drawn() == 64 // SAMPLES[name]
        # responses count, so an estimator changes neither the batches nor their cost
        assert config.turns_per_policy() % 64 == 0
    typed = parsed(f"advantages={name}", "algorithm.samples_per_prompt=2").algorithm
    assert typed.samples_per_prompt == 2 and typed.has_value_head() == (name == "gae")


def test_none_is_the_algorithms_own() -> None:
    for algorithm, own in (("ppo", "gae"), ("grpo", "group"), ("rloo", "leave_one_out")):
        assert parsed(f"algorithm={algorithm}").algorithm.advantages == own
    # gae, typed or not, is the same run
    assert settings_digest(compose_config()) == settings_digest(compose_config("advantages=gae"))


def test_methods_without_advantages_refuse_them() -> None:
    needed = "^advantages=group: needs algorithm=ppo, grpo, rloo, cory or maporl; spag has none$"
    with pytest.raises(ConfigError, match=needed):
        parsed("experiment=spag/llama2_spag_1", "advantages=group")


def test_the_presets_are_the_papers_losses() -> None:
    keys = ("advantages", "ratio", "loss_average", "kl_in", "kl_estimator", "epochs")
    values = {
        name: OmegaConf.load(CONF / "algorithm" / f"{name}.yaml") for name in ("grpo", "rloo")
    }
    assert [values["grpo"].get(key) for key in keys] == [
        *("group", None, "responses", "loss", "k3", 1),
    ]
    assert [values["rloo"].get(key) for key in keys] == [
        *("leave_one_out", "response", "responses", "reward", "k1", 1),
    ]
