"""Settings of `algorithm=maporl`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cory.config.algorithm import PPOConfig
from cory.config.checks import require, require_at_least, require_choice
from cory.config.debate import DebateConfig


@dataclass
class GuardConfig:
    """Answers that are paid a penalty instead of their score; None: no such guard."""

    penalty: float  # takes the score's place
    scope: str  # own: in the credit of that turn only | propagate: in earlier turns' sums, too
    min_tokens: int | None  # shorter answers
    max_repeats: int | None  # a run of tokens said more often than this in a row
    repeat_length: int  # longest run that is looked for, tokens
    boxed: bool  # answers without \\boxed{...}

    def __post_init__(self) -> None:
        key = "algorithm.guards"
        require_choice(f"{key}.scope", self.scope, ("own", "propagate"))
        require_at_least(f"{key}.repeat_length", self.repeat_length, 1)
        for name in ("min_tokens", "max_repeats"):
            if getattr(self, name) is not None:
                require_at_least(f"{key}.{name}", getattr(self, name), 1)


@dataclass
class AlternationConfig:
    """One trained turn at a time, the last first, then the one before it, and so on in a circle."""

    first: int  # iterations of the last turn at the beginning
    every: int  # iterations of each turn after that

    def __post_init__(self) -> None:
        require_at_least("algorithm.alternation.first", self.first, 0)
        require_at_least("algorithm.alternation.every", self.every, 1)


@dataclass
class MaporlConfig(PPOConfig, DebateConfig):
    """Settings of `algorithm=maporl`."""

    alternation: AlternationConfig | None  # None: all of these learn in every iteration
    horizon: str  # discounted_sum | last | current: whose turns' scores a turn is worth
    share: str  # all: averaged over the debaters | individual: own scores only
    turn_discount: float  # gamma of Definition 1, per turn
    alpha: list[float]  # incentives alpha_0, alpha_1 of Table 1
    beta: list[float]  # incentives beta_0, beta_1 of Table 2
    official_shaping: bool  # signs and places as in the released code
    bonus_from: str  # ground_truth | verifier: which answers count as right for the incentives
    guards: GuardConfig

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_debaters()
        require_choice("algorithm.horizon", self.horizon, ("discounted_sum", "last", "current"))
        require_choice("algorithm.share", self.share, ("all", "individual"))
        require_choice("algorithm.bonus_from", self.bonus_from, ("ground_truth", "verifier"))
        require(
            0 <= self.turn_discount <= 1,
            f"algorithm.turn_discount must lie in [0, 1], got {self.turn_discount}",
        )
        for key in ("alpha", "beta"):
            value = getattr(self, key)
            require(
                len(value) == 2,
                f"algorithm.{key} must hold two incentives, {key}_0 and {key}_1, got {value}",
            )
            require(all(map(math.isfinite, value)), f"algorithm.{key} must be finite, got {value}")
        least, most = self.guards.min_tokens, self.sampling.max_response_tokens
        require(
            self.iterations == 0 or least is None or least <= most,
            f"algorithm.guards.min_tokens ({least}) exceeds "
            f"algorithm.sampling.max_response_tokens ({most}): every answer would be penalised",
        )
        require(
            self.alternation is None or self.param_sharing in ("per_turn", "per_turn_agent"),
            f"algorithm.alternation needs turns with policies of their own; "
            f"algorithm.param_sharing={self.param_sharing} shares them",
        )

    @property
    def shapes(self) -> bool:
        """Whether any incentive is paid."""
        return any([*self.alpha, *self.beta])

    def turns_per_policy(self) -> int:
        places = self.agents * len(self.trained) // len(self.policies())
        return self.prompts_per_iteration * places
