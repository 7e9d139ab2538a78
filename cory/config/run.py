"""One experiment: the settings of all groups."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cory.config.algorithm import CoryConfig, PPOConfig
from cory.config.checks import ConfigError, require, require_at_least, require_choice
from cory.config.evaluation import EvaluationConfig
from cory.config.game import GameConfig
from cory.config.hardware import HardwareConfig
from cory.config.maft import MaftConfig
from cory.config.maporl import MaporlConfig
from cory.config.model import ModelConfig
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


@dataclass
class WandbConfig:
    """Where metrics are mirrored to; nothing is ever read back from it."""

    mode: str  # disabled | offline | online
    project: str
    init_timeout: int  # seconds until a server that takes calls and says nothing is given up
    finish_timeout: int  # seconds that the end of a run waits for what is not uploaded yet

    def __post_init__(self) -> None:
        require_choice("wandb.mode", self.mode, ("disabled", "offline", "online"))
        require(
            0 < len(self.project) <= 128 and not set(self.project) & set("/\\#?%:"),
            f"wandb.project must be 1 to 128 characters without / \\ # ? % :, got '{self.project}'",
        )
        require_at_least("wandb.init_timeout", self.init_timeout, 1)
        require_at_least("wandb.finish_timeout", self.finish_timeout, 1)


@dataclass
class Config:
    """One experiment."""

    model: ModelConfig
    partner: ModelConfig | None  # every second debater's model; None: all have the first
    task: Any  # one of TASK_CONFIGS, chosen by task.name
    algorithm: Any  # one of ALGORITHM_CONFIGS, chosen by algorithm.name
    reward: Any  # one of REWARD_CONFIGS, chosen by reward.name
    hardware: HardwareConfig
    wandb: WandbConfig
    seed: int
    evaluate_every: int  # iterations; 0: only at the end
    evaluation: EvaluationConfig
    samples_every: int  # iterations between the episodes kept as text; 0: only at the end
    samples_kept: int  # episodes kept each time
    checkpoint_every: int  # iterations; 0: only where the run is asked to stop
    export_every: int  # iterations between agents written as folders; 0: only at the end
    keep_last: int  # checkpoints kept while the run lasts
    init_from: str | None  # directory of a finished run whose agents this one starts from
    preflight_only: bool  # print what the run will need and leave
    run_dir: str
    experiment: str  # the names under which Hydra composed this run
    sweep: str
    scale: str

    def __post_init__(self) -> None:
        every = ("evaluate_every", "samples_every", "checkpoint_every", "export_every")
        for key in ("seed", "samples_kept", *every):
            require_at_least(key, getattr(self, key), 0)
        require_at_least("keep_last", self.keep_last, 1)
        require(self.seed < 2**63, f"seed must be below 2**63, got {self.seed}")


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
