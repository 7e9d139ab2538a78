"""Every setting: its type, its meaning, its check. Values live in conf/, never here."""

from cory.config.algorithm import CoryConfig, PPOConfig, SamplingConfig, StopConfig
from cory.config.checks import ConfigError, exact_div, require
from cory.config.evaluation import EvaluationConfig
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
from cory.config.task import ImdbConfig, QuestionsConfig

__all__ = [
    "ALGORITHM_CONFIGS",
    "REWARD_CONFIGS",
    "TASK_CONFIGS",
    "AdapterConfig",
    "BatchPlan",
    "Config",
    "ConfigError",
    "CoryConfig",
    "EvaluationConfig",
    "ExactMatchConfig",
    "HardwareConfig",
    "ImdbConfig",
    "ModelConfig",
    "PPOConfig",
    "QuestionsConfig",
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
