"""Settings of the optimiser and of its learning rate, the same for every trainer."""

from dataclasses import dataclass

from cory.config.checks import require, require_at_least, require_choice, require_positive

ADAMW, ADAMW_8BIT = "adamw", "adamw_8bit"
CONSTANT, LINEAR, COSINE = "constant", "linear", "cosine"


@dataclass
class OptimiserConfig:
    """Settings of the optimiser; docs/running.md says over what each trainer's schedule runs."""

    learning_rate: float  # the highest of the schedule
    schedule: str  # constant | linear | cosine: how the learning rate falls after the warm-up
    warmup: float  # share of the schedule in which it rises linearly from 0
    final_share: float  # linear, cosine: share of the highest rate at which it ends
    optimizer: str  # adamw | adamw_8bit: AdamW with its two moments in 8 bits, by bitsandbytes
    weight_decay: float
    max_grad_norm: float | None  # None: no clipping of the gradient's norm

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
