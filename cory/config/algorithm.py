"""Settings of `algorithm=`, those of optimisers among them."""

import re
from collections import Counter
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from cory.config.base import (
    Between0And1,
    Conflicts,
    Count,
    FunctionName,
    NotNegative,
    Number,
    Positive,
    PositiveShare,
    Settings,
    Share,
    ShareBelowOne,
    Text,
    function_or,
    with_fields,
)
from cory.config.model import EndpointConfig


class SamplingConfig(Settings):
    temperature: Positive
    top_k: Number  # 0: off
    top_p: PositiveShare  # 1: off
    repetition_penalty: Positive  # 1: off
    min_response_tokens: Count  # one length limit is drawn per iteration from this range,
    max_response_tokens: Count  # both ends included, for all agents alike

    def conflicts(self) -> Conflicts:
        if self.max_response_tokens < self.min_response_tokens:
            least = self.min_response_tokens
            yield "max_response_tokens", f"must not be below min_response_tokens={least}"

    @property
    def lengths(self) -> tuple[int, int]:
        """The range of limits, both ends included."""
        return self.min_response_tokens, self.max_response_tokens

    def changes_distribution(self, policy_temperature: float) -> list[str]:
        """The settings that make the sampler differ from the policy, as `key=value`."""
        neutral = dict(temperature=policy_temperature, top_k=0, top_p=1.0, repetition_penalty=1.0)
        return [
            f"sampling.{key}={getattr(self, key)}"
            for key, value in neutral.items()
            if getattr(self, key) != value
        ]


class AlgorithmConfig(Settings):
    """Settings of every algorithm, and what they say about a run."""

    # each training of a policy begins with a new optimiser, so that none is kept
    new_each_training: ClassVar[bool] = False
    holds_debates: ClassVar[bool] = False  # prompts quote the rounds of a debate so far

    learning_rate: Positive  # docs/methods.md says over what each trainer's schedule runs
    schedule: Literal["constant", "linear", "cosine"]
    warmup: ShareBelowOne
    final_share: Share
    optimizer: Literal["adamw", "adamw_8bit"]
    weight_decay: NotNegative
    max_grad_norm: Positive | None
    name: Text
    iterations: Number  # 0: only evaluate
    prompts_per_iteration: Count
    minibatch_size: Count
    epochs: Count
    sampling: SamplingConfig

    def trains_on(self) -> bool:
        """Whether a policy's training goes on from the weights that its last one ended with."""
        return True

    def value_rate_factor(self) -> float:
        """The value head's learning rate as a multiple of that of all other weights."""
        return 1.0

    def names(self) -> list[str]:
        """The names of the policies that learn."""
        return ["agent_0"]

    def member_of(self, name: str) -> str:
        """The block of `members` about a policy, or about an agent that does not learn."""
        return name

    def members(self) -> list[str]:
        """The names that blocks of `members` may have."""
        return list(dict.fromkeys(map(self.member_of, self.names())))

    def one_engine(self, sharing: str) -> bool:
        """Whether all policies of a model use one engine, one after another."""
        return self.new_each_training and sharing == "copies" and len(self.names()) > 1

    def rows_sampled(self) -> int:
        """Responses that one model samples at once, where nothing splits them."""
        return self.prompts_per_iteration

    def turns_per_policy(self) -> int:
        """Turns from which one policy learns in an iteration.

        One full minibatch, where their number is known only after they have been collected.
        """
        return self.minibatch_size

    def prompts_drawn(self) -> int:
        """Prompts that an iteration takes from the training data."""
        return self.prompts_per_iteration

    def has_value_head(self) -> bool:
        return False

    def speaks_remotely(self) -> bool:
        """Whether a model behind an endpoint speaks for every agent."""
        return False

    def reads_reference(self) -> bool:
        """Whether anything reads the frozen reference of agents that are full copies."""
        return True


class SupervisedConfig(AlgorithmConfig):
    """Settings that all share: each iteration collects examples and learns from them."""


class PPOConfig(AlgorithmConfig):
    """Settings of `algorithm=ppo`, `grpo` and `rloo`."""

    samples_per_prompt: Count
    advantages: Literal["gae", "group", "leave_one_out", "batch", "rae"]
    groups: Literal["turn", "agent", "prompt", "episode"]
    baseline_decay: Share
    critic: Literal["own", "central"]
    critic_template: Annotated[Text, with_fields("prompt", "said", allowed=["role"])]
    divide_by_std: bool
    group_baseline: bool
    ratio: Literal["token", "response", "gspo"]
    loss_average: Literal["tokens", "responses", "constant"]
    loss_average_turns: Count | None  # None: over all
    clip_range: Between0And1
    clip_range_high: Positive | None  # None: as below
    value_clip_range: Positive
    value_coef: NotNegative
    value_learning_rate: Positive | None  # None: learning_rate
    gamma: Share
    gae_lambda: Share
    policy_temperature: Positive
    whiten_advantages: bool
    kl_estimator: Literal["full", "k1", "k2", "k3"]
    kl_in: Literal["reward", "loss"]
    kl_loss: Literal["k3", "k3_corrected", "full"]
    kl_coef: NotNegative
    entropy_coef: NotNegative
    kl_controller: Literal["fixed", "adaptive"]
    kl_target: Positive
    kl_horizon: Count
    score_scaling: Literal["none", "scale", "normalise"]
    score_clip: Positive | None
    overlong: Literal["none", "mask", "penalty"]
    overlong_buffer: Count | None  # tokens; only for a penalty
    resample_equal_groups: Number  # further roll-outs at most
    max_mean_ratio: Positive | None
    sampler_ratio_cap: Positive | None  # None: sampler and trainer count as one

    def conflicts(self) -> Conflicts:
        yield from super().conflicts()
        turns, samples = self.loss_average_turns, self.samples_per_prompt
        if turns is not None and self.minibatch_size % turns:
            yield "minibatch_size", f"must be a multiple of algorithm.loss_average_turns={turns}"
        if self.prompts_per_iteration % samples:
            rule = f"must be a multiple of algorithm.samples_per_prompt={samples}"
            yield "prompts_per_iteration", rule
        compares = self.advantages in ("group", "leave_one_out")
        if samples == 1 and (compares or self.group_baseline):
            by = f"advantages={self.advantages}" if compares else "group_baseline=true"
            rule = f"must be at least 2 with algorithm.{by}, which compares responses to a prompt"
            yield "samples_per_prompt", rule
        agents = getattr(self, "agents", 1)
        several = agents > 1 if isinstance(agents, int) else len(agents) > 1
        if self.critic == "central" and not several:
            yield "critic", "reads what several agents say, and there is one"
        joint = self.groups == "episode"  # a return that its agents share
        if self.groups != "turn" and not hasattr(self, "credit" if joint else "agents"):
            names = "cory or team" if joint else "cory, team or maporl"
            yield "groups", f"needs algorithm={names}, got {self.name}"

    def value_rate_factor(self) -> float:
        own = self.value_learning_rate
        return 1.0 if own is None else own / self.learning_rate

    def turns_per_policy(self) -> int:
        return self.prompts_per_iteration

    def prompts_drawn(self) -> int:
        return self.prompts_per_iteration // self.samples_per_prompt

    def has_value_head(self) -> bool:
        return self.advantages == "gae"


# credit of an utterance: R less that of a replay in which nothing, or another sample, stands for it
REPLAYED = ("counterfactual", "resampled")


class CoryConfig(PPOConfig):
    agents: Annotated[int, Field(ge=2)]  # agent i sees the answers of those before it
    knowledge_transfer: bool  # False: everybody sees the bare query (w/o KT)
    swap_every: Count | None  # iterations between role exchanges; None: never (w/o REx)
    collective_reward: bool  # False: each agent gets its own score only
    credit: Annotated[Text, function_or("all", "mean", "later", *REPLAYED)]
    official_swap: bool

    def names(self) -> list[str]:
        return [f"agent_{number}" for number in range(self.agents)]


# what speaks for a fixed agent; any other value is the folder of a run
FIXED = ("start", "endpoint", "pool")
# names in metrics, of roles, of what speaks beside the agents and of what a checkpoint has
RESERVED = re.compile(r"team|base|start|pioneer|observer(_\d+)?|task|streams")

Name = Annotated[Text, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]


class TeamConfig(PPOConfig):
    play: FunctionName  # async def play(prompt, team)
    agents: Annotated[list[Name], Field(min_length=1)]  # who speaks, as `play` calls them
    # separate: each learns alone | shared: one for all | agent -> policy
    policies: Literal["separate", "shared"] | dict[str, Name]
    fixed: dict[str, Text] | None  # agents that do not learn -> FIXED, or the folder of a run
    credit: Annotated[Text, function_or("own", "sum", "mean", "later", "discounted", *REPLAYED)]
    turn_discount: Share  # credit=discounted: per utterance of the agent
    pool_every: Count  # iterations between the versions of the first policy that join the pool
    max_utterances: Count  # in an episode
    endpoint: EndpointConfig | None

    def conflicts(self) -> Conflicts:
        yield from super().conflicts()
        for name, count in Counter(self.agents).items():
            if count > 1 or RESERVED.fullmatch(name):
                yield "agents", f"must not name {name}" + (" twice" if count > 1 else "")
        for name in self.fixed_agents:
            if name not in self.agents:
                yield "fixed", f"names {name}, not among algorithm.agents"
        if isinstance(self.policies, dict):
            for name in dict.fromkeys(self.policies.values()):
                if RESERVED.fullmatch(name) or name in self.fixed_agents:
                    yield "policies", f"must not name {name}"
            learning, given = {*self.agents} - {*self.fixed_agents}, {*self.policies}
            if learning != given:
                wrong = ", ".join(sorted(learning ^ given))
                yield "policies", f"must name the agents that learn, each once; look at {wrong}"
        if self.turn_discount != 1 and self.credit != "discounted":
            yield "turn_discount", f"needs algorithm.credit=discounted, got {self.credit}"
        if self.credit in REPLAYED and len(self.agents) == 1:
            yield "credit", "shares a reward out between agents, and there is one"
        if len(self.fixed_agents) == len(self.agents):
            yield "fixed", "names all agents: nobody learns"
        if "endpoint" in self.fixed_agents.values() and self.endpoint is None:
            yield "endpoint", "must be given where one speaks: +endpoint@algorithm.endpoint=openai"

    @property
    def fixed_agents(self) -> dict[str, str]:
        """Agent that does not learn -> what speaks for it."""
        return self.fixed or {}

    def policy_of(self, agent: str) -> str:
        """The policy that speaks for an agent, or the agent's own name where it is fixed."""
        if agent in self.fixed_agents:
            return agent
        if isinstance(self.policies, dict):
            return self.policies[agent]
        return agent if self.policies == "separate" else "shared"

    def names(self) -> list[str]:
        learning = [agent for agent in self.agents if agent not in self.fixed_agents]
        return list(dict.fromkeys(self.policy_of(agent) for agent in learning))

    def members(self) -> list[str]:
        return [*super().members(), *self.fixed_agents]

    @property
    def runs(self) -> dict[str, str]:
        """Agent -> folder, of those that are agents of other runs."""
        return {name: kind for name, kind in self.fixed_agents.items() if kind not in FIXED}

    def turns_per_policy(self) -> int:
        return self.minibatch_size  # how much agents say is known only after the roll-out
