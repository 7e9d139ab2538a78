"""Settings that were typed and that the run does not read are refused, naming what they need."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import yaml

from cory.config import Config, ConfigError
from cory.config.unread import READ_WITH, unread
from cory.runtime.refusals import refuse_unread
from tests.support.composing import parsed

PROMPTS = "task=prompts task.path=mine.jsonl task.held_out_share=0.5"
SMALL = (
    "cory/gsm8k_cory",
    "cory/imdb_cory",
    "maporl/gsm8k_maporl_exact",
    "maporl/gsm8k_hetero_qwen",
    "maporl/verifier_gsm8k",
    "maft/phi3_arithmetic_maft",
    "spag/llama2_im",
    PROMPTS,
)
OTHER = "something else"


@cache
def composed(experiment: str) -> Config:
    words = experiment.split() if "=" in experiment else [f"experiment={experiment}"]
    return parsed(*words, "scale=small")


def has(config: Any, key: str) -> bool:
    for name in key.split("."):
        if not hasattr(config, name):
            return False
        config = getattr(config, name)
    return True


def with_value(config: Any, key: str, value: Any) -> Any:
    """The same settings but for one, unchecked."""
    name, _, rest = key.partition(".")
    changed = with_value(getattr(config, name), rest, value) if rest else value
    return config.model_copy(update={name: changed})


@pytest.mark.parametrize("row", READ_WITH)
def test_every_row_is_about_two_settings_that_some_run_has(row: str) -> None:
    needs, _, typed = READ_WITH[row].partition("=")
    values = [yaml.safe_load(value) for value in typed.split("|")] if typed else []
    configs = [c for c in map(composed, SMALL) if has(c, row) and has(c, needs)]
    assert configs
    for config in configs:
        for value in values or (1,):
            read = with_value(config, needs, value)
            assert list(unread(read, [row, f"{row}.part"])) == []
        ((key, why),) = unread(with_value(config, needs, None), [row])
        assert key == row and why.startswith(f"it needs {needs}=") and why.endswith("is null")
        if values:
            ((key, why),) = unread(with_value(config, needs, OTHER), [f"{row}.part"])
            assert key == f"{row}.part" and why.endswith(f"which is {OTHER}")


@pytest.mark.parametrize("experiment", ["maft/phi3_arithmetic_maft", "spag/llama2_im"])
def test_settings_of_a_value_head_are_not_read_where_there_is_none(experiment: str) -> None:
    config = composed(experiment)
    said = f"algorithm={config.algorithm.name} has no value head"
    assert list(unread(config, ["model.value_init"])) == [("model.value_init", said)]
    assert list(unread(composed("maporl/verifier_gsm8k"), ["model.value_init"])) == []


def test_of_what_is_a_users_own_nothing_is_said() -> None:
    config = composed("cory/gsm8k_cory")
    keys = ["keep_best_mode", "task.path", "reward.double_quantisation"]
    config = config.replace(reward=composed("cory/imdb_cory").reward)
    assert [key for key, _ in unread(config, keys)] == keys
    for group, left in (
        ("algorithm", []),
        ("task", ["keep_best_mode", "reward.double_quantisation"]),
        ("reward", ["keep_best_mode", "task.path"]),
    ):
        own = with_value(config, f"{group}.name", "own")
        assert [key for key, _ in unread(own, keys)] == left


GRPO = ("advantages=group", "algorithm.samples_per_prompt=2")


def test_a_line_for_each_of_those_that_were_typed() -> None:
    config = parsed(*GRPO)
    words = [*GRPO, "algorithm.gamma=0.5", "++algorithm.gae_lambda=1", "~model.adapter", "seed=3"]
    words += ["wandb.notes=null"]
    with pytest.raises(ConfigError) as error:
        refuse_unread(config, words)
    assert str(error.value).splitlines() == [
        "algorithm.gamma=0.5 is not read: it needs algorithm.advantages=gae or batch, which is "
        "group",
        "++algorithm.gae_lambda=1 is not read: it needs algorithm.advantages=gae, which is group",
    ]
    assert refuse_unread(config, [*GRPO, "algorithm.divide_by_std=false"]) == []
