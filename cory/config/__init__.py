"""Every setting: its type, its meaning, its check. Values live in conf/, never here."""

from cory.config.algorithm import CoryConfig, PPOConfig, SamplingConfig, StopConfig
from cory.config.checks import ConfigError, exact_div, require
from cory.config.debate import DebateConfig, DebatePrompts
from cory.config.evaluation import EvaluationConfig
from cory.config.hardware import BatchPlan, HardwareConfig, batch_plan
from cory.config.maporl import GuardConfig, MaporlConfig
from cory.config.model import AdapterConfig, ModelConfig
from cory.config.reward import ExactMatchConfig, SentimentConfig, VerifierRewardConfig
from cory.config.run import (
    ALGORITHM_CONFIGS,
    REWARD_CONFIGS,
    TASK_CONFIGS,
    Config,
    WandbConfig,
    nearest,
    parse_config,
)
from cory.config.supervised import RequestsConfig, SFTConfig, SupervisedConfig, VerifierConfig
from cory.config.task import AnliConfig, ImdbConfig, ProgramsConfig, QuestionsConfig

__all__ = [
    "ALGORITHM_CONFIGS",
    "REWARD_CONFIGS",
    "TASK_CONFIGS",
    "AdapterConfig",
    "AnliConfig",
    "BatchPlan",
    "Config",
    "ConfigError",
    "CoryConfig",
    "DebateConfig",
    "DebatePrompts",
    "EvaluationConfig",
    "ExactMatchConfig",
    "GuardConfig",
    "HardwareConfig",
    "ImdbConfig",
    "MaporlConfig",
    "ModelConfig",
    "PPOConfig",
    "ProgramsConfig",
    "QuestionsConfig",
    "RequestsConfig",
    "SFTConfig",
    "SamplingConfig",
    "SentimentConfig",
    "StopConfig",
    "SupervisedConfig",
    "VerifierConfig",
    "VerifierRewardConfig",
    "WandbConfig",
    "batch_plan",
    "exact_div",
    "nearest",
    "parse_config",
    "require",
]
