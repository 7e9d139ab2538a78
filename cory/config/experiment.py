"""One experiment: what its groups can name, and the settings of all of them together."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Annotated, Any, Literal

from pydantic import Field

from cory.config import algorithm, debate, offline, task
from cory.config.algorithm import SamplingConfig
from cory.config.base import (
    Conflicts,
    Count,
    NotNegative,
    Number,
    Positive,
    Settings,
    Text,
    Words,
    chosen,
    matching,
    require,
)
from cory.config.model import ModelConfig


@dataclass(frozen=True)
class Option:
    """A task, reward or algorithm: its settings, and what builds it from them."""

    settings: type[Settings]
    builder: str  # module:name of a class or function, imported when a run is built


# builder: (settings, tokenizer, random stream of the order of training prompts) -> Task
TASKS: Mapping[str, Option] = {
    "imdb": Option(task.ImdbConfig, "cory.tasks.imdb:ImdbTask"),
    **dict.fromkeys(
        ("gsm8k", "arithmetic", "split", "tinygsm", "anli", "math", "mmlu", "prompts"),
        Option(task.PromptsConfig, "cory.tasks.prompts:PromptsTask"),
    ),
    "reasoning_gym": Option(task.GymConfig, "cory.tasks.gym:GymTask"),
    **dict.fromkeys(
        ("taboo", "twenty_questions", "guess_my_city"),
        Option(task.GameConfig, "cory.tasks.game:GameTask"),
    ),
}
# builder: (settings, task, device, run) -> Reward
REWARDS: Mapping[str, Option] = {
    "python": Option(task.PythonRewardConfig, "cory.rewards.python_function:PythonReward"),
    "returned": Option(task.ExactMatchConfig, "cory.rewards.exact_match:Returned"),
    "classifier": Option(task.ClassifierConfig, "cory.rewards.classifier:Classifier"),
    "sentiment": Option(task.ClassifierConfig, "cory.rewards.classifier:Classifier"),
    "judge": Option(task.JudgeConfig, "cory.rewards.judge:Judge"),
    "sum": Option(task.SumConfig, "cory.rewards:WeightedSum"),
    "exact_match": Option(task.ExactMatchConfig, "cory.rewards.exact_match:ExactMatch"),
    "verifier": Option(task.VerifierRewardConfig, "cory.rewards.verifier:Verifier"),
    "game_outcome": Option(task.GameOutcomeConfig, "cory.rewards.game_outcome:GameOutcome"),
}
# builder: (settings, Components) -> Algorithm
ALGORITHMS: Mapping[str, Option] = {
    "ppo": Option(algorithm.PPOConfig, "cory.algorithms.ppo:build_ppo"),
    "grpo": Option(algorithm.PPOConfig, "cory.algorithms.ppo:build_ppo"),
    "rloo": Option(algorithm.PPOConfig, "cory.algorithms.ppo:build_ppo"),
    "cory": Option(algorithm.CoryConfig, "cory.algorithms.cory:build_cory"),
    "team": Option(algorithm.TeamConfig, "cory.algorithms.team:build_team"),
    "maporl": Option(debate.MaporlConfig, "cory.algorithms.maporl:build_maporl"),
    "verifier": Option(debate.VerifierConfig, "cory.algorithms.verifier:build_verifier"),
    "debate_sft": Option(debate.DebateSFTConfig, "cory.algorithms.maporl:build_debate_sft"),
    "sft": Option(debate.SFTConfig, "cory.algorithms.sft:build_sft"),
    "imitation": Option(offline.OfflineConfig, "cory.algorithms.spag:build_imitation"),
    "spag": Option(offline.SpagConfig, "cory.algorithms.spag:build_spag"),
    "maft": Option(debate.MaftConfig, "cory.algorithms.maft:build_maft"),
}
# what a table is called in an error -> the table
KINDS = {"task": TASKS, "reward": REWARDS, "algorithm": ALGORITHMS}


def option(kind: str, name: str) -> Option:
    """The task, reward or algorithm of this name; ConfigError where there is none."""
    known = KINDS[kind]
    require(name in known, f"{kind}.name={name}: must be one of {', '.join(sorted(known))}")
    return known[name]


def builder(kind: str, name: str) -> Any:
    """The class or function that builds the task, reward or algorithm of this name."""
    return resolve_name(option(kind, name).builder)


def cores() -> int:
    """Number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


SERVER = "must be http://host:port of a server, without a path"


class ServerConfig(Settings):
    """A vLLM server that samples: started by the run, or somewhere else."""

    address: Annotated[Text, matching(r"http://[^@?#/\s]+", SERVER)] | None  # None: one is started
    python: Text | None  # of the environment with vLLM; None: .vllm/bin/python, or this one's
    gpus: Annotated[Text, Field(pattern=r"^[0-9]+(,[0-9]+)*$")] | None  # None: as the run sees
    options: list[Text]  # further words of the command that starts it
    requests: Count  # responses that are sampled side by side, at most
    kv_cache_gib: Positive  # GiB for keys and values
    timeout: Positive  # seconds without an answer after which a try has failed
    retries: Number  # further tries, of a server that is gone with another one


class HardwareConfig(Settings):
    """Settings of `hardware=`: they may change speed, never the result beyond rounding."""

    name: Text
    device: Literal["cpu", "cuda"]
    nodes: Count  # machines, each started by the same command
    processes: Count  # per node
    rendezvous: Annotated[Text, Field(pattern=r"^\S+:[0-9]{1,5}$")] | None  # host:port of a node
    zero_stage: Literal[0, 1, 2, 3]
    keep_whole_below: Number  # ZeRO-3: weights of fewer elements stay whole in every process
    offload_optimizer: bool
    offload_parameters: bool
    gradient_checkpointing: bool
    microbatch_size: Count  # at most this many turns per forward and backward pass
    rollout_batch_size: Count  # at most this many turns per scoring pass
    generation_batch_size: Count | None  # at most this many per generation pass; None: as many
    cuda_graphs: bool | None  # None: on CUDA, where the model can be recorded
    sampler: Literal["own", "vllm"]
    server: ServerConfig  # of sampler=vllm

    def conflicts(self) -> Conflicts:
        if self.server.address is not None and self.server.gpus is not None:
            yield "server.gpus", "is of a server that the run starts: server.address=null"
        if self.nodes > 1 and self.rendezvous is None:
            yield "nodes", "needs hardware.rendezvous=host:port, which all nodes reach"

    @property
    def responses_at_once(self) -> int:
        """Turns per generation pass of one process."""
        return self.generation_batch_size or self.rollout_batch_size

    @property
    def world(self) -> int:
        return self.nodes * self.processes


class EvaluationConfig(Settings):
    """What every evaluation measures, during training and after it."""

    prompts: Count | None  # the first so many of the split; None: all
    split: Literal["train", "test"]
    samples: Count  # responses per prompt
    k: Annotated[list[Count], Field(min_length=1)]  # pass@k for each; tasks with answers only
    greedy: bool
    team: bool  # also the agents in their roles, each seeing the answers before its own
    probes: list[Words]  # texts that every agent answers at the end, kept in samples.jsonl
    probes_of_team: list[Literal["muted", "untrained", "swapped"]]  # as docs/agents.md says
    before: bool  # also before the training, with the same prompts and random numbers as after it

    def conflicts(self) -> Conflicts:
        if max(self.k) > self.samples:
            yield "k", f"must not exceed evaluation.samples={self.samples}"


class WandbConfig(Settings):
    """Where metrics are mirrored to; nothing is ever read back from it."""

    mode: Literal["disabled", "offline", "online"]
    project: Annotated[Text, matching(r"[^/\\#?%:]{1,128}", "must be a name without / \\ # ? % :")]
    init_timeout: Count  # seconds until a server that takes calls and says nothing is given up
    finish_timeout: Count  # seconds that the end of a run waits for what is not uploaded yet
    entity: Words | None  # user or team of the project; None: the account's default
    name: Words | None  # of the run; None: experiment, what varies in the sweep, seed
    group: Words | None  # None: sweep or experiment, and what varies beside the seed
    tags: list[Annotated[Words, Field(max_length=64)]]  # beside the scale and the commit
    notes: Text | None


OF_TEXTS = ("template", "system", "thinking")  # how a model is shown prompts, and read
OWN = ("learning_rate", "kl_coef")  # null where a block does not say them


class MemberConfig(Settings):
    """Settings of one agent; those that its block does not name are the run's."""

    model: ModelConfig  # chosen by +model@members.<agent>.model=<option>
    learning_rate: Positive | None  # None: as the algorithm has it
    kl_coef: NotNegative | None  # None: likewise
    sampling: SamplingConfig


def alike(one: ModelConfig, other: ModelConfig) -> bool:
    """Whether agents with these settings start from one model in memory.

    Each agent has an adapter of its own, and may be shown prompts in its own way.
    """
    own = {key: getattr(other, key) for key in ("adapter", *OF_TEXTS)}
    return one.model_copy(update=own) == other


class Config(Settings):
    model: ModelConfig
    members: dict[str, MemberConfig]  # agent -> what it has of its own
    task: Annotated[Any, chosen("task")]  # the model that `name` says
    algorithm: Annotated[Any, chosen("algorithm")]
    reward: Annotated[Any, chosen("reward")]
    hardware: HardwareConfig
    wandb: WandbConfig
    tensorboard: bool
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    evaluate_every: Number  # iterations; 0: only at the end
    evaluation: EvaluationConfig
    samples_every: Number  # iterations between the episodes kept as text; 0: only at the end
    samples_kept: Number
    checkpoint_every: Number  # iterations; 0: after the last one, or where it is asked to stop
    export_every: Number  # iterations between agents written as folders; 0: only at the end
    export_examples: bool  # what is learnt, as JSON lines
    keep_last: Count
    keep_best: Text | None
    keep_best_mode: Literal["max", "min"]
    init_from: Text | None
    parallel_runs: Count | None  # None: as many as cores allow
    run_dir: Words
    experiment: Text  # the names under which Hydra composed this run
    sweep: Text
    adapter: Text | None
    scale: Text
    fidelity: Text

    @property
    def models(self) -> dict[str, ModelConfig]:
        """The language models that agents start from, by their group of settings: each once."""
        found = {"model": self.model}
        for name, member in self.members.items():
            if not any(alike(member.model, other) for other in found.values()):
                found[f"members.{name}.model"] = member.model
        return found

    def model_of(self, name: str) -> ModelConfig:
        """The settings of the model of a policy, or of an agent that does not learn."""
        member = self.member(name)
        return self.model if member is None else member.model

    def key_of(self, name: str) -> str:
        """The group of settings that these are."""
        block = self.algorithm.member_of(name)
        return f"members.{block}.model" if block in self.members else "model"

    def group_of(self, name: str) -> str:
        """Which of `models` that is."""
        own = self.model_of(name)
        return next(group for group, model in self.models.items() if alike(model, own))

    def longest_response(self, group: str) -> int:
        """The most tokens that an agent of one of `models` may say."""
        own = [one.sampling for name, one in self.members.items() if self.group_of(name) == group]
        said = [self.algorithm.sampling, *own] if group == "model" else own
        return max(sampling.max_response_tokens for sampling in said)

    def member(self, name: str) -> MemberConfig | None:
        """The block of `members` about a policy, or about an agent that does not learn."""
        return self.members.get(self.algorithm.member_of(name))

    def algorithm_of(self, policy: str) -> Any:
        """The settings of the algorithm as they are for one policy."""
        member = self.member(policy)
        if member is None:
            return self.algorithm
        said = {key: getattr(member, key) for key in OWN if hasattr(self.algorithm, key)}
        own = {key: value for key, value in said.items() if value is not None}
        return self.algorithm.replace(**own, sampling=member.sampling)

    def own_sampling(self, name: str) -> SamplingConfig | None:
        """How an agent samples that has a block of its own; None: as the run does."""
        member = self.member(name)
        return None if member is None else member.sampling

    @property
    def evaluates_before(self) -> bool:
        """Whether agents are evaluated before the training: where there is one."""
        return self.evaluation.before and self.algorithm.iterations > 0

    def conflicts(self) -> Conflicts:
        if self.keep_best is not None and self.algorithm.speaks_remotely():
            yield "keep_best", "needs agents: a model behind an endpoint speaks for all"
        if str(self.keep_best).startswith("eval/") and self.evaluate_every == 0:
            yield "keep_best", "needs evaluate_every above 0: one evaluation is compared with none"
        elsewhere = self.hardware.device != "cpu" or self.hardware.nodes > 1
        if self.parallel_runs not in (None, 1) and elsewhere:  # they share a CPU's cores
            yield "parallel_runs", "needs hardware.device=cpu and hardware.nodes=1"
