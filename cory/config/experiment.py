"""One experiment: the settings of all groups together."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from cory.config.base import (
    Conflict,
    Count,
    Number,
    Settings,
    Text,
    Words,
    chosen,
    matching,
)
from cory.config.hardware import HardwareConfig
from cory.config.model import ModelConfig


class EvaluationConfig(Settings):
    """What every evaluation measures, during training and after it."""

    prompts: Count | None  # the first so many of the split; None: all
    split: Literal["train", "test"]
    samples: Count  # responses per prompt
    k: Annotated[list[Count], Field(min_length=1)]  # pass@k for each; tasks with answers only
    greedy: bool
    team: bool  # also the agents in their roles, each seeing the answers before its own
    probes: list[Words]  # texts that every agent answers at the end, kept in samples.jsonl
    before: bool  # also before the training, with the same prompts and random numbers as after it

    def conflicts(self) -> Iterator[Conflict]:
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


class Config(Settings):
    """One experiment."""

    model: ModelConfig
    partner: ModelConfig | None  # of every second debater, or a team's fixed agent
    task: Annotated[Any, chosen("task")]  # the model that `name` says
    algorithm: Annotated[Any, chosen("algorithm")]
    reward: Annotated[Any, chosen("reward")]
    hardware: HardwareConfig
    wandb: WandbConfig
    tensorboard: bool
    trackio: Words | None
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    evaluate_every: Number  # iterations; 0: only at the end
    evaluation: EvaluationConfig
    samples_every: Number  # iterations between the episodes kept as text; 0: only at the end
    samples_kept: Number
    checkpoint_every: Number  # iterations; 0: after the last one, or where it is asked to stop
    export_every: Number  # iterations between agents written as folders; 0: only at the end
    keep_last: Count
    keep_state: bool  # keep a finished run's last checkpoint, to give it more iterations later
    keep_best: Text | None
    keep_best_mode: Literal["max", "min"]
    init_from: Text | None
    parallel_runs: Count | None  # None: as many as cores allow
    objective: Text | None
    run_dir: Words
    experiment: Text  # the names under which Hydra composed this run
    sweep: Text
    scale: Text
    fidelity: Text

    @property
    def models(self) -> dict[str, ModelConfig]:
        """The language models that agents start from, by their group of settings."""
        partner = self.partner
        return {"model": self.model} | ({} if partner is None else {"partner": partner})

    @property
    def evaluates_before(self) -> bool:
        """Whether agents are evaluated before the training: where there is one."""
        algorithm = self.algorithm
        trains = algorithm.iterations > 0 and not getattr(algorithm, "collect_only", False)
        return self.evaluation.before and trains

    def conflicts(self) -> Iterator[Conflict]:
        if self.parallel_runs in (None, 1):
            return
        if self.hardware.device != "cpu" or self.hardware.nodes > 1:  # they share its cores
            yield "parallel_runs", "needs hardware.device=cpu and hardware.nodes=1"
        if self.objective is not None:
            yield "parallel_runs", "must be 1 with objective: sweepers wait for each run's number"
