"""One experiment: the settings of all groups together."""

from dataclasses import dataclass
from typing import Any

from cory.config.checks import require, require_at_least, require_choice
from cory.config.evaluation import EvaluationConfig
from cory.config.hardware import HardwareConfig
from cory.config.model import ModelConfig


def require_project(key: str, name: str) -> None:
    """Refuse a name of a project that W&B would not take, or trackio would change."""
    require(
        0 < len(name.strip()) <= len(name) <= 128 and not set(name) & set("/\\#?%:"),
        f"{key} must be 1 to 128 characters without / \\ # ? % :, got '{name}'",
    )


@dataclass
class WandbConfig:
    """Where metrics are mirrored to; nothing is ever read back from it."""

    mode: str  # disabled | offline | online
    project: str
    init_timeout: int  # seconds until a server that takes calls and says nothing is given up
    finish_timeout: int  # seconds that the end of a run waits for what is not uploaded yet
    entity: str | None  # user or team that the project belongs to; None: the account's default
    name: str | None  # of the run; None: experiment, what varies in the sweep, seed
    group: str | None  # None: sweep or experiment, and what varies in the sweep beside the seed
    tags: list[str]  # beside the scale and the commit
    notes: str | None

    def __post_init__(self) -> None:
        require_choice("wandb.mode", self.mode, ("disabled", "offline", "online"))
        require_project("wandb.project", self.project)
        if self.entity is not None:
            require(
                0 < len(self.entity) <= 128 and not set(self.entity) & set("/\\#?%: "),
                f"wandb.entity must be 1 to 128 characters without / \\ # ? % : and spaces, "
                f"got '{self.entity}'",
            )
        for key in ("name", "group"):
            text = getattr(self, key)
            require(
                text is None or 0 < len(text.strip()) <= len(text) <= 128,
                f"wandb.{key} must have 1 to 128 characters, got '{text}'",
            )
        for tag in self.tags:
            require(
                0 < len(tag.strip()) <= len(tag) <= 64,
                f"wandb.tags must have 1 to 64 characters each, got '{tag}'",
            )
        require_at_least("wandb.init_timeout", self.init_timeout, 1)
        require_at_least("wandb.finish_timeout", self.finish_timeout, 1)


@dataclass
class Config:
    """One experiment."""

    model: ModelConfig
    partner: ModelConfig | None  # every second debater's model; None: all have the first
    task: Any  # settings of the task that task.name names
    algorithm: Any  # ... of the algorithm
    reward: Any  # ... of the reward
    hardware: HardwareConfig
    wandb: WandbConfig
    tensorboard: bool  # also write event files for TensorBoard
    trackio: str | None  # name of a trackio project that also gets the run
    seed: int
    evaluate_every: int  # iterations; 0: only at the end
    evaluation: EvaluationConfig
    samples_every: int  # iterations between the episodes kept as text; 0: only at the end
    samples_kept: int  # episodes kept each time
    checkpoint_every: int  # iterations; 0: after the last one, or where it is asked to stop
    export_every: int  # iterations between agents written as folders; 0: only at the end
    keep_last: int  # checkpoints kept while the run lasts
    keep_state: bool | None  # keep a finished run's last one; None: up to 1 GiB, not in sweeps
    keep_best: str | None  # metric: the agents of the iteration with its best value stay in best/
    keep_best_mode: str  # max | min: which value is the best
    init_from: str | None  # directory of a finished run whose agents this one starts from
    parallel_runs: int | None  # runs of a sweep at a time; None: as many as cores and memory allow
    objective: str | None  # metric whose last value a sweeper is told; None: nothing is told
    run_dir: str
    experiment: str  # the names under which Hydra composed this run
    sweep: str
    scale: str
    fidelity: str

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

    def __post_init__(self) -> None:
        every = ("evaluate_every", "samples_every", "checkpoint_every", "export_every")
        for key in ("seed", "samples_kept", *every):
            require_at_least(key, getattr(self, key), 0)
        require_at_least("keep_last", self.keep_last, 1)
        if self.trackio is not None:
            require_project("trackio", self.trackio)
        require_choice("keep_best_mode", self.keep_best_mode, ("max", "min"))
        if self.parallel_runs is not None:
            require_at_least("parallel_runs", self.parallel_runs, 1)
        require(
            self.parallel_runs in (None, 1) or self.hardware.shares_cores,
            f"parallel_runs={self.parallel_runs} needs hardware.device=cpu and hardware.nodes=1, "
            f"got {self.hardware.device} and {self.hardware.nodes}",
        )
        require(
            self.parallel_runs in (None, 1) or self.objective is None,
            f"objective={self.objective} needs parallel_runs=1, got {self.parallel_runs}: Hydra's "
            f"sweepers wait for the number of each run",
        )
        require(bool(self.run_dir.strip()), "run_dir is empty; name a folder, or leave it out")
        require(self.seed < 2**63, f"seed must be below 2**63, got {self.seed}")
