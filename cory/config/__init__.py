"""Every setting: its type, its meaning, its check. Values live in conf/, never here."""

from cory.config.algorithm import CoryConfig, PPOConfig, SamplingConfig, StopConfig
from cory.config.checks import ConfigError, exact_div, require
from cory.config.hardware import BatchPlan, HardwareConfig, batch_plan
from cory.config.model import AdapterConfig, ModelConfig
from cory.config.reward import ExactMatchConfig, SentimentConfig
from cory.config.run import (
    ALGORITHM_CONFIGS,
    REWARD_CONFIGS,
    TASK_CONFIGS,
    Config,
    WandbConfig,
    nearest,
    parse_config,
)
from cory.config.task import Gsm8kConfig, ImdbConfig

__all__ = [
    "ALGORITHM_CONFIGS",
    "REWARD_CONFIGS",
    "TASK_CONFIGS",
    "AdapterConfig",
    "BatchPlan",
    "Config",
    "ConfigError",
    "CoryConfig",
    "ExactMatchConfig",
    "Gsm8kConfig",
    "HardwareConfig",
    "ImdbConfig",
    "ModelConfig",
    "PPOConfig",
    "SamplingConfig",
    "SentimentConfig",
    "StopConfig",
    "WandbConfig",
    "batch_plan",
    "exact_div",
    "nearest",
    "parse_config",
    "require",
]
