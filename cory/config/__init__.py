"""Every setting: its type, its meaning, its check. Values live in conf/, never here."""

from cory.config.algorithm import CoryConfig, PPOConfig, SamplingConfig, StopConfig
from cory.config.checks import ConfigError, exact_div, require
from cory.config.debate import DebateConfig, DebatePrompts
from cory.config.evaluation import (
    GEOMETRIC_MEAN,
    BenchmarkConfig,
    DiversityConfig,
    EvaluationConfig,
    SuiteConfig,
    load_suite,
)
from cory.config.experiment import Config, WandbConfig
from cory.config.game import GameConfig, GameStyles, GameTexts, ScriptedConfig
from cory.config.hardware import BatchPlan, HardwareConfig, batch_plan
from cory.config.maft import (
    AGREEING,
    CORRECT,
    GENERATION_ONLY,
    OWN,
    SINGLE,
    SPECIALISED,
    MaftConfig,
    MaftPrompts,
)
from cory.config.maporl import GuardConfig, MaporlConfig
from cory.config.model import AdapterConfig, EndpointConfig, ModelConfig
from cory.config.offline import (
    ENDPOINT,
    ITSELF,
    NONE,
    OPPONENTS,
    RANDOM,
    SCRIPTED,
    SELF_PLAY,
    START,
    ImitationConfig,
    InstructionsConfig,
    OfflineConfig,
    SpagConfig,
)
from cory.config.parse import (
    ALGORITHM_CONFIGS,
    REWARD_CONFIGS,
    TASK_CONFIGS,
    nearest,
    parse_config,
)
from cory.config.reward import (
    ExactMatchConfig,
    GameOutcomeConfig,
    SentimentConfig,
    VerifierRewardConfig,
)
from cory.config.supervised import RequestsConfig, SFTConfig, SupervisedConfig, VerifierConfig
from cory.config.task import (
    AnliConfig,
    ImdbConfig,
    MathConfig,
    MmluConfig,
    PickConfig,
    ProgramsConfig,
    QuestionsConfig,
)
from cory.config.together import plan_of

__all__ = [
    "AGREEING",
    "ALGORITHM_CONFIGS",
    "CORRECT",
    "ENDPOINT",
    "GENERATION_ONLY",
    "GEOMETRIC_MEAN",
    "ITSELF",
    "NONE",
    "OPPONENTS",
    "OWN",
    "RANDOM",
    "REWARD_CONFIGS",
    "SCRIPTED",
    "SELF_PLAY",
    "SINGLE",
    "SPECIALISED",
    "START",
    "TASK_CONFIGS",
    "AdapterConfig",
    "AnliConfig",
    "BatchPlan",
    "BenchmarkConfig",
    "Config",
    "ConfigError",
    "CoryConfig",
    "DebateConfig",
    "DebatePrompts",
    "DiversityConfig",
    "EndpointConfig",
    "EvaluationConfig",
    "ExactMatchConfig",
    "GameConfig",
    "GameOutcomeConfig",
    "GameStyles",
    "GameTexts",
    "GuardConfig",
    "HardwareConfig",
    "ImdbConfig",
    "ImitationConfig",
    "InstructionsConfig",
    "MaftConfig",
    "MaftPrompts",
    "MaporlConfig",
    "MathConfig",
    "MmluConfig",
    "ModelConfig",
    "OfflineConfig",
    "PPOConfig",
    "PickConfig",
    "ProgramsConfig",
    "QuestionsConfig",
    "RequestsConfig",
    "SFTConfig",
    "SamplingConfig",
    "ScriptedConfig",
    "SentimentConfig",
    "SpagConfig",
    "StopConfig",
    "SuiteConfig",
    "SupervisedConfig",
    "VerifierConfig",
    "VerifierRewardConfig",
    "WandbConfig",
    "batch_plan",
    "exact_div",
    "load_suite",
    "nearest",
    "parse_config",
    "plan_of",
    "require",
]
