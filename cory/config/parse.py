"""From composed YAML to checked dataclasses."""

import copy
import difflib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from cory.config.added import complete
from cory.config.algorithm import CoryConfig, PPOConfig
from cory.config.checks import ConfigError, require
from cory.config.debate import MaporlConfig
from cory.config.experiment import Config
from cory.config.game import GameConfig
from cory.config.maft import MaftConfig
from cory.config.offline import ImitationConfig, SpagConfig
from cory.config.reward import (
    ExactMatchConfig,
    GameOutcomeConfig,
    SentimentConfig,
    VerifierRewardConfig,
)
from cory.config.supervised import SFTConfig, VerifierConfig
from cory.config.task import AnliConfig, ImdbConfig, MathConfig, MmluConfig, QuestionsConfig
from cory.config.together import check_together

TASK_CONFIGS: Mapping[str, type] = {
    "imdb": ImdbConfig,
    "gsm8k": QuestionsConfig,
    "arithmetic": QuestionsConfig,
    "tinygsm": QuestionsConfig,
    "anli": AnliConfig,
    "math": MathConfig,
    "mmlu": MmluConfig,
    "taboo": GameConfig,
    "twenty_questions": GameConfig,
    "guess_my_city": GameConfig,
}
ALGORITHM_CONFIGS: Mapping[str, type] = {
    "ppo": PPOConfig,
    "cory": CoryConfig,
    "maporl": MaporlConfig,
    "verifier": VerifierConfig,
    "sft": SFTConfig,
    "imitation": ImitationConfig,
    "spag": SpagConfig,
    "maft": MaftConfig,
}
REWARD_CONFIGS: Mapping[str, type] = {
    "sentiment": SentimentConfig,
    "exact_match": ExactMatchConfig,
    "verifier": VerifierRewardConfig,
    "game_outcome": GameOutcomeConfig,
}


def parse_config(cfg: DictConfig) -> Config:
    """Checks a composed config and returns it as dataclasses, or raises ConfigError."""
    cfg = copy.deepcopy(cfg)
    with open_dict(cfg):
        complete(cfg)
    schema = OmegaConf.structured(Config)
    groups = {"task": TASK_CONFIGS, "algorithm": ALGORITHM_CONFIGS, "reward": REWARD_CONFIGS}
    for group, table in groups.items():
        name = OmegaConf.select(cfg, f"{group}.name")
        require(
            name in table,
            f"{group}.name '{name}' is unknown; choose one of {', '.join(sorted(table))}",
        )
        schema[group] = table[name]
    try:
        merged = OmegaConf.merge(schema, cfg)
        missing = OmegaConf.missing_keys(merged)
        require(not missing, f"no value given for {', '.join(sorted(missing))}")
        config = OmegaConf.to_object(merged)
    except OmegaConfBaseException as error:
        raise ConfigError(explain(error, cfg)) from None
    assert isinstance(config, Config)
    check_together(config)
    return config


def explain(error: OmegaConfBaseException, cfg: DictConfig) -> str:
    """One line for an OmegaConf error, with the nearest known key when one was misspelt."""
    first = str(error).splitlines()[0]
    key = error.full_key or ""
    if "is not a ListConfig" in first:
        return f"{key} must be a list, typed as '{key}=[...]'"
    if "is not a subclass of" in first:
        return f"{key} must hold settings by name, not a single value"
    if " not in " not in first:
        return f"{key}: {first}" if key else first
    node: Any = error.object_type
    known = [f.name for f in fields(node)] if hasattr(node, "__dataclass_fields__") else []
    leaf = key.rpartition(".")[2]
    return f"{key} is not a setting{nearest(leaf, known)}"


def nearest(name: str, known: list[str]) -> str:
    """`; did you mean x?` when a known name is close, else nothing."""
    near = difflib.get_close_matches(name, [k for k in known if k != name], n=1)
    return f"; did you mean {near[0]}?" if near else ""
