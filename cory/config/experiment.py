"""One experiment: the settings of all groups together."""

from dataclasses import dataclass
from typing import Any

from cory.config.checks import require, require_at_least, require_choice
from cory.config.evaluation import EvaluationConfig
from cory.config.hardware import HardwareConfig
from cory.config.model import ModelConfig


@dataclass
class WandbConfig:
    """Where metrics are mirrored to; nothing is ever read back from it."""

    mode: str  # disabled | offline | online
    project: str
    init_timeout: int  # seconds until a server that takes calls and says nothing is given up
    finish_timeout: int  # seconds that the end of a run waits for what is not uploaded yet

    def __post_init__(self) -> None:
        require_choice("wandb.mode", self.mode, ("disabled", "offline", "online"))
        require(
            0 < len(self.project) <= 128 and not set(self.project) & set("/\\#?%:"),
            f"wandb.project must be 1 to 128 characters without / \\ # ? % :, got '{self.project}'",
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
    seed: int
    evaluate_every: int  # iterations; 0: only at the end
    evaluation: EvaluationConfig
    samples_every: int  # iterations between the episodes kept as text; 0: only at the end
    samples_kept: int  # episodes kept each time
    checkpoint_every: int  # iterations; 0: only where the run is asked to stop
    export_every: int  # iterations between agents written as folders; 0: only at the end
    keep_last: int  # checkpoints kept while the run lasts
    init_from: str | None  # directory of a finished run whose agents this one starts from
    parallel_runs: int | None  # runs of a sweep at a time; None: as many as cores and memory allow
    objective: str | None  # metric whose last value a sweeper is told; None: nothing is told
    preflight_only: bool  # print what the run will need and leave
    run_dir: str
    experiment: str  # the names under which Hydra composed this run
    sweep: str
    scale: str

    def __post_init__(self) -> None:
        every = ("evaluate_every", "samples_every", "checkpoint_every", "export_every")
        for key in ("seed", "samples_kept", *every):
            require_at_least(key, getattr(self, key), 0)
        require_at_least("keep_last", self.keep_last, 1)
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
