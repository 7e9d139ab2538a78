"""Settings of `algorithm=`, and of the optimiser of every algorithm."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from cory.config.checks import (
    MOST_ROUNDS,
    exact_div,
    require,
    require_at_least,
    require_choice,
    require_count,
    require_positive,
)
from cory.config.model import EndpointConfig

ALL, MEAN, LATER = "all", "mean", "later"  # which scores make up the credit of an answer
GAE = "gae"  # the estimator that needs a value head
ADVANTAGES = (GAE, "group", "leave_one_out", "batch")

ADAMW, ADAMW_8BIT = "adamw", "adamw_8bit"
CONSTANT, LINEAR, COSINE = "constant", "linear", "cosine"


@dataclass
class SamplingConfig:
    """How responses are sampled."""

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

    def changes_distribution(self, policy_temperature: float) -> list[str]:
        """The settings that make the sampler differ from the policy, as `key=value`."""
        neutral = {
            "temperature": policy_temperature,
            "top_k": 0,
            "top_p": 1.0,
            "repetition_penalty": 1.0,
        }
        return [
            f"algorithm.sampling.{key}={getattr(self, key)}"
            for key, value in neutral.items()
            if getattr(self, key) != value
        ]


@dataclass
class StopConfig:
    """Bounds at which a run stops, with its records and last checkpoint; None: no bound."""

    max_kl: float | None  # nats per response, of any agent
    max_ratio: float | None  # mean probability ratio over an update
    min_entropy: float | None  # nats per token

    def __post_init__(self) -> None:
        for key in ("max_kl", "max_ratio", "min_entropy"):
            if getattr(self, key) is not None:
                require_positive(f"algorithm.stop.{key}", getattr(self, key))


@dataclass
class OptimiserConfig:
    """Settings of the optimiser; docs/methods.md says over what each trainer's schedule runs."""

    learning_rate: float  # the highest of the schedule
    schedule: str  # constant | linear | cosine: how the learning rate falls after the warm-up
    warmup: float  # share of the schedule in which it rises linearly from 0
    final_share: float  # linear, cosine: share of the highest rate at which it ends
    optimizer: str  # adamw | adamw_8bit: AdamW with its two moments in 8 bits, by bitsandbytes
    weight_decay: float
    max_grad_norm: float | None  # None: no clipping of the gradient's norm

    def new_each_training(self) -> bool:
        """Whether each training of a policy begins with a new optimiser, so that none is kept."""
        return False

    def trains_on(self) -> bool:
        """Whether a policy's training goes on from the weights that its last one ended with."""
        return True

    def follows_run_length(self) -> bool:
        """Whether the learning rate of an iteration depends on how many there are in all."""
        return self.schedule != CONSTANT or self.warmup > 0

    def one_engine(self, sharing: str) -> bool:
        """Whether all policies of a model use one engine, one after another."""
        return False

    def value_rate_factor(self) -> float:
        """The value head's learning rate as a multiple of that of all other weights."""
        return 1.0

    def check_optimiser(self) -> None:
        """Check the values of these settings."""
        require_positive("algorithm.learning_rate", self.learning_rate)
        require_choice("algorithm.schedule", self.schedule, (CONSTANT, LINEAR, COSINE))
        require(0 <= self.warmup < 1, f"algorithm.warmup must lie in [0, 1), got {self.warmup}")
        require(
            0 <= self.final_share <= 1,
            f"algorithm.final_share must lie in [0, 1], got {self.final_share}",
        )
        require(
            self.final_share == 0 or self.schedule != CONSTANT,
            f"algorithm.final_share={self.final_share} needs algorithm.schedule=linear or cosine: "
            f"a constant learning rate ends as it is",
        )
        require_choice("algorithm.optimizer", self.optimizer, (ADAMW, ADAMW_8BIT))
        require_at_least("algorithm.weight_decay", self.weight_decay, 0)
        if self.max_grad_norm is not None:
            require_positive("algorithm.max_grad_norm", self.max_grad_norm)


class AlgorithmFacts(ABC):
    """What the settings of an algorithm say about a run, unless a subclass says otherwise."""

    holds_debates: ClassVar[bool] = False  # prompts quote the rounds of a debate so far
    repeats_prompts: ClassVar[bool] = False  # an iteration may ask the same prompt several times
    prompts_per_iteration: int

    def policy_count(self) -> int:
        """Policies that learn."""
        return 1

    def rows_sampled(self) -> int:
        """Responses that one model samples at once, where nothing splits them."""
        return self.turns_per_policy()

    @abstractmethod
    def turns_per_policy(self) -> int:
        """Turns from which one policy learns in an iteration."""

    def prompts_drawn(self) -> int:
        """Prompts that an iteration takes from the training data."""
        return self.prompts_per_iteration

    def has_value_head(self) -> bool:
        """Whether every policy has a value head."""
        return False

    def speaks_remotely(self) -> bool:
        """Whether a model behind an endpoint speaks for every agent."""
        return False

    def endpoint_asked(self) -> EndpointConfig | None:
        """The endpoint whose model speaks for agents or plays against them; None: none does."""
        return None

    def reads_reference(self) -> bool:
        """Whether anything reads the frozen reference of agents that are full copies."""
        return True

    def opponent_models(self) -> int:
        """Agents of other runs that are held to be played against."""
        return 0


@dataclass
class PPOConfig(OptimiserConfig, AlgorithmFacts):
    """Settings of `algorithm=ppo`."""

    name: str
    iterations: int  # roll-out + update, this many times; 0: only evaluate
    prompts_per_iteration: int  # over all processes; each repetition of a prompt counts
    samples_per_prompt: int  # how often each prompt is asked in an iteration
    minibatch_size: int  # turns per optimiser step, over all processes
    epochs: int  # passes over one roll-out
    advantages: str  # gae | group | leave_one_out | batch: how advantages are estimated
    divide_by_std: bool  # group: by the group's standard deviation
    group_baseline: bool  # batch: the group's mean is subtracted first
    ratio: str  # token | response: what one probability ratio is of
    loss_average: str  # tokens | responses | constant: what the policy's loss is divided by
    loss_average_turns: int | None  # tokens: averaged over so many turns at a time; None: over all
    clip_range: float  # PPO ratio clip
    clip_range_high: float | None  # above 1; None: as below
    value_clip_range: float
    value_coef: float
    value_learning_rate: float | None  # the value head's, at its highest; None: learning_rate
    gamma: float
    gae_lambda: float
    policy_temperature: float  # divides the logits of policy and reference in updates
    whiten_advantages: bool
    kl_estimator: str  # full | k1 | k2 | k3
    kl_in: str  # reward | loss
    kl_loss: str  # kl_in=loss: k3 of the sampled tokens | full, over the vocabulary
    kl_coef: float  # penalty per nat of KL to the reference
    kl_controller: str  # fixed | adaptive
    kl_target: float  # adaptive: nats per response
    kl_horizon: int  # adaptive: turns
    score_scaling: str  # none | scale | normalise, by running statistics of each agent
    score_clip: float | None
    max_mean_ratio: float | None  # of a minibatch; above it its gradient is zeroed, and counted
    stop: StopConfig
    sampling: SamplingConfig

    def __post_init__(self) -> None:
        require_count("algorithm.iterations", self.iterations, 0, MOST_ROUNDS)
        require_count("algorithm.epochs", self.epochs, 1, MOST_ROUNDS)
        for key in (
            "prompts_per_iteration",
            "samples_per_prompt",
            "minibatch_size",
            "kl_horizon",
        ):
            require_at_least(f"algorithm.{key}", getattr(self, key), 1)
        self.check_optimiser()
        for key in ("value_clip_range", "kl_target", "policy_temperature"):
            require_positive(f"algorithm.{key}", getattr(self, key))
        for key in ("value_coef", "kl_coef"):
            require_at_least(f"algorithm.{key}", getattr(self, key), 0)
        for key in ("score_clip", "max_mean_ratio"):
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
        self._check_estimator()

    def value_rate_factor(self) -> float:
        own = self.value_learning_rate
        return 1.0 if own is None else own / self.learning_rate

    def _check_estimator(self) -> None:
        """Check how advantages are estimated, and what the policy's loss is made of."""
        require_choice("algorithm.advantages", self.advantages, ADVANTAGES)
        if self.value_learning_rate is not None:
            require_positive("algorithm.value_learning_rate", self.value_learning_rate)
            require(
                self.advantages == GAE,
                f"algorithm.value_learning_rate={self.value_learning_rate} needs "
                f"algorithm.advantages={GAE}: nothing else has a value head",
            )
        require_choice("algorithm.kl_in", self.kl_in, ("reward", "loss"))
        require_choice("algorithm.ratio", self.ratio, ("token", "response"))
        require_choice("algorithm.kl_loss", self.kl_loss, ("k3", "full"))
        require(
            self.kl_loss == "k3" or self.kl_in == "loss",
            f"algorithm.kl_loss={self.kl_loss} needs algorithm.kl_in=loss",
        )
        averages = ("tokens", "responses", "constant")
        require_choice("algorithm.loss_average", self.loss_average, averages)
        turns = self.loss_average_turns
        if turns is not None:
            require_at_least("algorithm.loss_average_turns", turns, 1)
            require(
                self.loss_average == "tokens",
                f"algorithm.loss_average_turns needs algorithm.loss_average=tokens, got "
                f"{self.loss_average}",
            )
            exact_div(
                self.minibatch_size,
                turns,
                "algorithm.minibatch_size",
                "algorithm.loss_average_turns",
            )
        high = self.clip_range_high
        require(
            high is None or (high > 0 and math.isfinite(high)),
            f"algorithm.clip_range_high must be above 0 and finite, got {high}; null takes "
            f"algorithm.clip_range",
        )
        samples = self.samples_per_prompt
        exact_div(
            self.prompts_per_iteration,
            samples,
            "algorithm.prompts_per_iteration",
            "algorithm.samples_per_prompt",
        )
        require(
            not self.group_baseline or self.advantages == "batch",
            f"algorithm.group_baseline=true is a part of advantages=batch, not of "
            f"{self.advantages}, which has its own baseline",
        )
        compares = self.advantages in ("group", "leave_one_out")
        key = f"advantages={self.advantages}" if compares else "algorithm.group_baseline=true"
        require(
            samples > 1 or not (compares or self.group_baseline),
            f"{key} compares responses to the same prompt: algorithm.samples_per_prompt must be at "
            f"least 2, got {samples}",
        )
        require(
            self.ratio == "token" or self.loss_average == "responses",
            f"algorithm.ratio=response has one loss for each response: it needs "
            f"algorithm.loss_average=responses, got {self.loss_average}",
        )

    def turns_per_policy(self) -> int:
        return self.prompts_per_iteration

    def prompts_drawn(self) -> int:
        return self.prompts_per_iteration // self.samples_per_prompt

    def has_value_head(self) -> bool:
        return self.advantages == GAE


@dataclass
class CoryConfig(PPOConfig):
    """Settings of `algorithm=cory`."""

    agents: int  # 2 in the paper; agent i sees the answers of those before it
    knowledge_transfer: bool  # False: everybody sees the bare query (w/o KT)
    swap_every: int | None  # iterations between role exchanges; None: never (w/o REx)
    collective_reward: bool  # False: each agent gets its own score only
    credit: str  # all: the sum of the scores | mean | later: its own and those of later agents
    official_swap: bool  # reset Adam, statistics, KL controller and seeds at each exchange

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least("algorithm.agents", self.agents, 2)
        if self.swap_every is not None:
            require_at_least("algorithm.swap_every", self.swap_every, 1)
        require_choice("algorithm.credit", self.credit, (ALL, MEAN, LATER))
        require(
            self.collective_reward or self.credit == ALL,
            f"algorithm.credit={self.credit} shares out the collective reward: set "
            "algorithm.collective_reward=true",
        )

    def policy_count(self) -> int:
        return self.agents
