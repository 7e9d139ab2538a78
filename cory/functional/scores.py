"""Scaling of credits by running statistics, and the adaptive KL coefficient."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

FLOAT32_EPSILON = 2.0**-23


@dataclass
class RunningMoments:
    """Count, mean and variance of all numbers so far, merged batch by batch (Chan et al., 1979)."""

    count: float = 0.0
    mean: float = 0.0
    variance: float = 1.0  # population variance; 1 before the first batch

    def update(self, numbers: Sequence[float]) -> None:
        """Adds a batch of at least one number."""
        n = len(numbers)
        mean = sum(numbers) / n
        squares = sum((x - mean) ** 2 for x in numbers)
        total = self.count + n
        shift = mean - self.mean
        old_squares = self.variance * self.count + shift**2 * self.count * n / total
        self.mean += shift * n / total
        self.variance = (old_squares + squares) / total
        self.count = total

    @property
    def std(self) -> float:
        """Unbiased standard deviation; 1 while all numbers are equal, so that it divides by 1."""
        if self.count < 2 or self.variance <= 1e-12 * max(1.0, self.mean**2):
            return 1.0
        return math.sqrt(self.variance * self.count / (self.count - 1))


def above_baselines(
    credits: Sequence[float], roles: Sequence[str], baselines: dict[str, float], decay: float
) -> list[float]:
    """Credits minus the baseline of their role: SPIRAL's role-conditioned advantage (Liu et al.).

    baselines: role -> exponential mean of its credits, which first takes in the mean of these; a
        role's first mean is its baseline. The paper's takes them in one by one.
    decay: alpha, the weight of what was before
    """
    for role in dict.fromkeys(roles):
        own = [credit for credit, who in zip(credits, roles, strict=True) if who == role]
        now = sum(own) / len(own)
        baselines[role] = decay * baselines.get(role, now) + (1 - decay) * now
    return [credit - baselines[role] for credit, role in zip(credits, roles, strict=True)]


def scaled_credits(
    numbers: Sequence[float], moments: RunningMoments, scaling: str, clip: float | None
) -> list[float]:
    """Credits scaled by the running statistics, then clipped (TRL's score scaling).

    scaling: none | scale: divided by the running deviation | normalise: less the running mean, too
    clip: bound on the absolute value, or None
    """
    if scaling == "none":
        result = list(numbers)
    elif scaling in ("scale", "normalise"):
        shift = moments.mean if scaling == "normalise" else 0.0
        result = [(x - shift) / (moments.std + FLOAT32_EPSILON) for x in numbers]
    else:
        raise ValueError(f"unknown scaling '{scaling}'; choose none, scale or normalise")
    return result if clip is None else [max(-clip, min(clip, x)) for x in result]


def adapted_kl_coef(kl_coef: float, kl: float, target: float, horizon: int, turns: int) -> float:
    """The next KL coefficient: up when KL exceeds the target, down below (Ziegler et al., 2019).

    kl: mean over turns of the KL summed over tokens, nats
    horizon: turns over which a 20 % deviation would change the coefficient by about e^0.2
    turns: turns since the last call
    """
    error = max(-0.2, min(0.2, kl / target - 1))
    return kl_coef * (1 + error * turns / horizon)
