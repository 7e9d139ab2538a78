"""Every setting: its type, its meaning, its check. Values live in conf/, never here."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from string import Formatter
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException


class ConfigError(ValueError):
    """A setting that cannot be: one line that names the key, the value and the rule."""


def require(condition: bool, message: str) -> None:
    """Raise ConfigError with `message` unless `condition` holds."""
    if not condition:
        raise ConfigError(message)


def require_choice(key: str, value: object, choices: tuple[object, ...]) -> None:
    require(value in choices, f"{key} must be one of {', '.join(map(str, choices))}, got {value}")


def require_at_least(key: str, value: float, least: float) -> None:
    require(least <= value < math.inf, f"{key} must be at least {least}, got {value}")


def require_positive(key: str, value: float) -> None:
    require(0 < value < math.inf, f"{key} must be above 0 and finite, got {value}")


def require_fields(
    key: str, template: str, needed: tuple[str, ...], allowed: tuple[str, ...] = ()
) -> None:
    """Every one of `needed` as {field} in the template, and no others but `allowed`."""
    try:
        found = {field for _, field, _, _ in Formatter().parse(template) if field is not None}
    except ValueError as error:
        raise ConfigError(f"{key}='{template}': {error}") from None
    for field in needed:
        require(field in found, f"{key} must contain {{{field}}}, got '{template}'")
    other = sorted(found - {*needed, *allowed})
    require(not other, f"{key} must not contain {{{''.join(other[:1])}}}, got '{template}'")


def exact_div(a: int, b: int, a_key: str, b_key: str) -> int:
    """a / b, or ConfigError when it leaves a rest."""
    require(a % b == 0, f"{a_key} ({a}) must be a multiple of {b_key} ({b})")
    return a // b


@dataclass
class ModelConfig:
    """Settings of `model=`: the language model that every agent starts from."""

    name: str
    path: str  # hub name, local folder, or asset:<name> for cory/assets/<name>
    precision: str  # fp32 | bf16
    dropout: bool  # keep the checkpoint's dropout while updating
    value_dropout: float  # before the value head, while updating

    def __post_init__(self) -> None:
        require_choice("model.precision", self.precision, ("fp32", "bf16"))
        require(
            0 <= self.value_dropout < 1,
            f"model.value_dropout must lie in [0, 1), got {self.value_dropout}",
        )


@dataclass
class ImdbConfig:
    """Settings of `task=imdb`: continue the first words of a movie review."""

    name: str
    source: str  # package (offline) | hub | path
    path: str  # hub: data set name; path: a .jsonl, .json, .csv or .parquet file
    text_column: str  # hub, path: the column that holds the review
    train_split: str  # split for training prompts; path: a slice, as train[:90%]
    test_split: str  # split for evaluation prompts; path: a slice, as train[90%:]
    min_characters: int  # shorter reviews are left out
    min_prompt_tokens: int  # a prompt is the first n tokens of a review, n drawn anew each time
    max_prompt_tokens: int
    observer_template: str  # {answers}: what was said before; {query}: the prompt
    answer_template: str  # one answer inside {answers}: {query} and {response}
    answer_separator: str  # between two answers, with three or more agents

    def __post_init__(self) -> None:
        require_choice("task.source", self.source, ("package", "hub", "path"))
        require_at_least("task.min_characters", self.min_characters, 0)
        require_at_least("task.min_prompt_tokens", self.min_prompt_tokens, 1)
        require(
            self.max_prompt_tokens >= self.min_prompt_tokens,
            f"task.max_prompt_tokens ({self.max_prompt_tokens}) must not be below "
            f"task.min_prompt_tokens ({self.min_prompt_tokens})",
        )
        require_fields("task.observer_template", self.observer_template, ("answers", "query"))
        require_fields("task.answer_template", self.answer_template, ("response",), ("query",))


@dataclass
class SentimentConfig:
    """Settings of `reward=sentiment`: how positive a classifier finds prompt and response."""

    name: str
    path: str  # sequence-classification checkpoint: hub name, folder or asset:
    label: str  # the class whose output is the score
    output: str  # logit | probability
    batch_size: int  # texts per forward pass

    def __post_init__(self) -> None:
        require_choice("reward.output", self.output, ("logit", "probability"))
        require_at_least("reward.batch_size", self.batch_size, 1)


@dataclass
class ExactMatchConfig:
    """Settings of `reward=exact_match`: 1 for a right answer, else 0."""

    name: str


@dataclass
class SamplingConfig:
    """How responses are drawn."""

    temperature: float
    top_k: int  # 0: off
    top_p: float  # 1: off
    repetition_penalty: float  # 1: off
    min_response_tokens: int  # one length limit is drawn per iteration from this range,
    max_response_tokens: int  # both ends included, for all agents alike

    def __post_init__(self) -> None:
        key = "algorithm.sampling"
        require_positive(f"{key}.temperature", self.temperature)
        require_at_least(f"{key}.top_k", self.top_k, 0)
        require(0 < self.top_p <= 1, f"{key}.top_p must lie in (0, 1], got {self.top_p}")
        require_positive(f"{key}.repetition_penalty", self.repetition_penalty)
        require_at_least(f"{key}.min_response_tokens", self.min_response_tokens, 1)
        require(
            self.max_response_tokens >= self.min_response_tokens,
            f"{key}.max_response_tokens ({self.max_response_tokens}) must not be below "
            f"{key}.min_response_tokens ({self.min_response_tokens})",
        )

    def changes_distribution(self) -> list[str]:
        """The settings that make the sampler differ from the policy, as `key=value`."""
        neutral = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "repetition_penalty": 1.0}
        return [
            f"algorithm.sampling.{key}={getattr(self, key)}"
            for key, value in neutral.items()
            if getattr(self, key) != value
        ]


@dataclass
class PPOConfig:
    """Settings of `algorithm=ppo`."""

    name: str
    iterations: int  # roll-out + update, this many times
    prompts_per_iteration: int  # over all processes
    minibatch_size: int  # turns per optimiser step, over all processes
    epochs: int  # passes over one roll-out
    learning_rate: float
    weight_decay: float
    max_grad_norm: float | None  # None: no clipping of the gradient's norm
    clip_range: float  # PPO ratio clip
    value_clip_range: float
    value_coef: float
    gamma: float
    gae_lambda: float
    whiten_advantages: bool
    kl_estimator: str  # full | k1 | k2 | k3
    kl_coef: float  # penalty per nat of KL to the reference
    kl_controller: str  # fixed | adaptive
    kl_target: float  # adaptive: nats per response
    kl_horizon: int  # adaptive: turns
    score_scaling: str  # none | scale | normalise, by running statistics of each agent
    score_clip: float | None
    max_mean_ratio: float | None  # above it a minibatch's gradient is zeroed, and counted
    sampling: SamplingConfig

    def __post_init__(self) -> None:
        for key in (
            "iterations",
            "prompts_per_iteration",
            "minibatch_size",
            "epochs",
            "kl_horizon",
        ):
            require_at_least(f"algorithm.{key}", getattr(self, key), 1)
        for key in ("learning_rate", "value_clip_range", "kl_target"):
            require_positive(f"algorithm.{key}", getattr(self, key))
        for key in ("weight_decay", "value_coef", "kl_coef"):
            require_at_least(f"algorithm.{key}", getattr(self, key), 0)
        for key in ("max_grad_norm", "score_clip", "max_mean_ratio"):
            if getattr(self, key) is not None:
                require_positive(f"algorithm.{key}", getattr(self, key))
        for key in ("gamma", "gae_lambda"):
            value = getattr(self, key)
            require(0 <= value <= 1, f"algorithm.{key} must lie in [0, 1], got {value}")
        require(
            0 < self.clip_range < 1,
            f"algorithm.clip_range must lie in (0, 1), got {self.clip_range}",
        )
        require_choice("algorithm.kl_estimator", self.kl_estimator, ("full", "k1", "k2", "k3"))
        require_choice("algorithm.kl_controller", self.kl_controller, ("fixed", "adaptive"))
        require_choice(
            "algorithm.score_scaling", self.score_scaling, ("none", "scale", "normalise")
        )


@dataclass
class CoryConfig(PPOConfig):
    """Settings of `algorithm=cory`."""

    agents: int  # 2 in the paper; agent i sees the answers of those before it
    knowledge_transfer: bool  # False: everybody sees the bare query (w/o KT)
    swap_every: int | None  # iterations between role exchanges; None: never (w/o REx)
    collective_reward: bool  # False: each agent gets its own score only
    official_swap: bool  # reset Adam, statistics, KL controller and seeds at each exchange

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least("algorithm.agents", self.agents, 2)
        if self.swap_every is not None:
            require_at_least("algorithm.swap_every", self.swap_every, 1)


@dataclass
class HardwareConfig:
    """Settings of `hardware=`: may change speed, never the result beyond rounding."""

    name: str
    device: str  # cpu | cuda
    zero_stage: int  # DeepSpeed ZeRO stage
    microbatch_size: int  # at most this many turns per forward and backward pass
    rollout_batch_size: int  # at most this many prompts per generation and scoring pass

    def __post_init__(self) -> None:
        require_choice("hardware.device", self.device, ("cpu", "cuda"))
        require_choice("hardware.zero_stage", self.zero_stage, (0, 1, 2))
        require_at_least("hardware.microbatch_size", self.microbatch_size, 1)
        require_at_least("hardware.rollout_batch_size", self.rollout_batch_size, 1)


@dataclass
class WandbConfig:
    """Where metrics are mirrored to; nothing is ever read back from it."""

    mode: str  # disabled | offline | online
    project: str
    init_timeout: int  # seconds until an unreachable server is given up

    def __post_init__(self) -> None:
        require_choice("wandb.mode", self.mode, ("disabled", "offline", "online"))
        require_at_least("wandb.init_timeout", self.init_timeout, 1)


@dataclass
class Config:
    """One experiment."""

    model: ModelConfig
    task: Any  # one of TASK_CONFIGS, chosen by task.name
    algorithm: Any  # one of ALGORITHM_CONFIGS, chosen by algorithm.name
    reward: Any  # one of REWARD_CONFIGS, chosen by reward.name
    hardware: HardwareConfig
    wandb: WandbConfig
    seed: int
    evaluate_every: int  # iterations; 0: only at the end
    evaluation_prompts: int  # held-out prompts per evaluation
    samples_every: int  # iterations between the episodes kept as text; 0: only at the end
    samples_kept: int  # episodes kept each time
    run_dir: str
    experiment: str  # the names under which Hydra composed this run
    sweep: str
    scale: str

    def __post_init__(self) -> None:
        for key in ("seed", "evaluate_every", "samples_every", "samples_kept"):
            require_at_least(key, getattr(self, key), 0)
        require(self.seed < 2**63, f"seed must be below 2**63, got {self.seed}")
        require_at_least("evaluation_prompts", self.evaluation_prompts, 1)


TASK_CONFIGS: Mapping[str, type] = {"imdb": ImdbConfig}
ALGORITHM_CONFIGS: Mapping[str, type] = {"ppo": PPOConfig, "cory": CoryConfig}
REWARD_CONFIGS: Mapping[str, type] = {"sentiment": SentimentConfig, "exact_match": ExactMatchConfig}
TASKS_WITH_ANSWERS: frozenset[str] = frozenset()


@dataclass(frozen=True)
class BatchPlan:
    """What follows from the three batch numbers that are given."""

    minibatches: int  # optimiser steps per epoch
    microbatch: int  # turns per forward and backward pass
    accumulation: int  # microbatches per optimiser step


def batch_plan(prompts: int, minibatch: int, microbatch: int) -> BatchPlan:
    """Derives the plan, or refuses numbers that leave a rest."""
    keys = ("algorithm.prompts_per_iteration", "algorithm.minibatch_size")
    minibatches = exact_div(prompts, minibatch, *keys)
    micro = min(microbatch, minibatch)
    accumulation = exact_div(minibatch, micro, keys[1], "hardware.microbatch_size")
    return BatchPlan(minibatches, micro, accumulation)


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


def check_together(config: Config) -> None:
    """Rules that span several groups."""
    algorithm = config.algorithm
    batch_plan(
        algorithm.prompts_per_iteration, algorithm.minibatch_size, config.hardware.microbatch_size
    )
    require(
        algorithm.max_mean_ratio is None
        or config.hardware.microbatch_size >= algorithm.minibatch_size,
        f"algorithm.max_mean_ratio needs whole minibatches: hardware.microbatch_size "
        f"({config.hardware.microbatch_size}) must be at least algorithm.minibatch_size "
        f"({algorithm.minibatch_size})",
    )
    require(
        config.reward.name != "exact_match" or config.task.name in TASKS_WITH_ANSWERS,
        f"reward=exact_match needs a task with answers; task={config.task.name} has none",
    )


def explain(error: OmegaConfBaseException, cfg: DictConfig) -> str:
    """One line for an OmegaConf error, with the nearest known key when one was misspelt."""
    first = str(error).splitlines()[0]
    key = error.full_key or ""
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
