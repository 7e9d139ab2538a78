"""Every setting: its type, its meaning, its check. Values live in conf/, never here."""

from cory.config.algorithm import (
    REPLAYED,
    AlgorithmConfig,
    CoryConfig,
    PPOConfig,
    SamplingConfig,
    SupervisedConfig,
    TeamConfig,
)
from cory.config.base import ConfigError, Settings, flat, nearest, no_setting, require
from cory.config.debate import (
    DebatePrompts,
    DebateSFTConfig,
    DiversityConfig,
    MaftConfig,
    MaftPrompts,
    MaporlConfig,
    SFTConfig,
    VerifierConfig,
)
from cory.config.experiment import (
    Config,
    EvaluationConfig,
    HardwareConfig,
    MemberConfig,
    ServerConfig,
    builder,
    cores,
)
from cory.config.model import AdapterConfig, EndpointConfig, ModelConfig
from cory.config.offline import InstructionsConfig, OfflineConfig, SpagConfig
from cory.config.rules import BatchPlan, parse_config, plan_of, products_of
from cory.config.sweep_files import experiment_names, read_sweep, sweep_names
from cory.config.task import (
    ClassifierConfig,
    ExactMatchConfig,
    GameConfig,
    GameOutcomeConfig,
    GymConfig,
    ImdbConfig,
    JudgeConfig,
    JudgeEndpointConfig,
    ProgramsConfig,
    PromptsConfig,
    PythonRewardConfig,
    SumConfig,
    VerifierRewardConfig,
    judges,
)
