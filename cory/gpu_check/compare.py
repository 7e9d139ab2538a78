"""Compares the numbers of a case with those of the CPU in float32, within bounds per precision.

A bound is a factor times the rounding unit u of the least exact type that the case computes with
(Higham, Accuracy and Stability of Numerical Algorithms, ch. 2) and, for what passes through all
layers, the square root of their number: rounding errors of one layer after another add up like
steps of a random walk. The factors were set on a CPU: docs/gpu.md names the measurement.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# half the distance from 1 to the next number
UNIT = {
    "fp32": 2.0**-24,
    "tf32": 2.0**-11,
    "fp16": 2.0**-11,
    "bf16": 2.0**-8,
    # Scales of blocks of 4-bit weights are 8-bit numbers, and devices round them to different
    # neighbours now and then: one in 300 on an H100, and weights were off by 1.5e-4 of their norm.
    "nf4": 2.0**-11,
}
# No bound is below these. In float32 sums of another order, over 5,632 numbers in the large model,
# are off by many units; TF32 that nobody asked for is off by ten times as much.
LEAST, LEAST_STEP = 2e-4, 5e-3
MEAN_FACTOR, TAIL_FACTOR = 8.0, 32.0  # times the root of the number of layers
GRADIENT_FACTOR, LOSS_FACTOR = 4.0, 4.0
# Adam's first step moves each weight by the learning rate, up or down: what rounding turns around
# are gradients smaller than their own error, a share of about u, which counts twice
STEP_FACTOR = 6.0
TAIL = 0.99  # quantile


@dataclass(frozen=True)
class Check:
    """One comparison."""

    what: str
    off: float  # from the CPU's number
    bound: float

    @property
    def holds(self) -> bool:
        """Not for NaN."""
        return self.off <= self.bound


def rounding_of(precision: str, products: str, quantisation: str) -> str:
    """The least exact of the types of a run: a key of UNIT."""
    packed = () if quantisation == "none" else (quantisation,)
    types: tuple[str, ...] = (precision, products, *packed)
    return max(types, key=lambda name: UNIT[name])


def checks(
    case: Mapping[str, Any], reference: Mapping[str, Any], rounding: str, layers: int
) -> list[Check]:
    """All comparisons of a case.

    case, reference: as `measure.numbers_of` returns them
    rounding: a key of UNIT
    """
    unit, depth = UNIT[rounding], float(layers) ** 0.5
    mean, tail = (max(LEAST, f * unit * depth) for f in (MEAN_FACTOR, TAIL_FACTOR))
    found = []
    for name in ("logprobs", "entropy", "values"):
        off = difference(case["before"][name], reference["before"][name])
        found.append(Check(f"{name}, mean", float(off.mean()), mean))
        found.append(Check(f"{name}, 99 % quantile", float(np.quantile(off, TAIL)), tail))
    found.append(
        Check("KL before the first update", float(np.abs(case["before"]["kl"]).mean()), mean)
    )
    found.append(greedy_check(case, reference, tail))
    found += [metric_check(key, case, reference, unit, depth) for key in reference["metrics"]
              if "skipped" not in key]  # fmt: skip
    found += step_checks(case, reference, max(LEAST_STEP, STEP_FACTOR * (unit * depth) ** 0.5))
    if left_out(case):
        gone = ("by the first update", "gradient_norm")
        found = [check for check in found if not any(word in check.what for word in gone)]
    return found


def left_out(case: Mapping[str, Any]) -> bool:
    """Whether the first update was left out, for an overflow of the loss scale in fp16."""
    return any(value > 0 for key, value in case["metrics"].items() if "skipped_steps" in key)


def difference(one: Sequence[float], other: Sequence[float]) -> np.ndarray[Any, Any]:
    """Absolute differences; ValueError where the tokens are not the same number."""
    if len(one) != len(other):
        raise ValueError(f"{len(one)} numbers are compared with {len(other)}")
    found: np.ndarray[Any, Any] = np.abs(np.array(one) - np.array(other))
    return found


def metric_check(
    key: str, case: Mapping[str, Any], reference: Mapping[str, Any], unit: float, depth: float
) -> Check:
    """Of a metric of the first iteration: relative, unless the number itself is below 1."""
    own, wanted = case["metrics"][key], reference["metrics"][key]
    factor = GRADIENT_FACTOR if "gradient" in key else LOSS_FACTOR
    off = abs(own - wanted) / max(1.0, abs(wanted))
    return Check(key, off, max(LEAST, factor * unit * depth))


def step_checks(case: Mapping[str, Any], reference: Mapping[str, Any], bound: float) -> list[Check]:
    """What the first update did to log-probabilities, KL and values of the fixed sequences."""

    def moved(numbers: Mapping[str, Any], name: str) -> np.ndarray[Any, Any]:
        after, before = (np.array(numbers[time][name]) for time in ("after", "before"))
        change: np.ndarray[Any, Any] = after - before
        return change

    found = []
    for name in ("logprobs", "kl", "values"):
        wanted = moved(reference, name)
        off = np.linalg.norm(moved(case, name) - wanted) / np.linalg.norm(wanted)
        found.append(Check(f"{name} moved by the first update", float(off), bound))
    return found


def greedy_check(case: Mapping[str, Any], reference: Mapping[str, Any], bound: float) -> Check:
    """Greedy tokens are the CPU's up to the first place where its two best were nearly alike.

    Off is the largest lead, in nats, of the CPU's token where another was taken first.
    """
    leads = [0.0]
    for own, wanted, margins in zip(
        case["greedy"], reference["greedy"], reference["margins"], strict=True
    ):
        places = [n for n, (a, b) in enumerate(zip(own, wanted, strict=False)) if a != b]
        if places:
            leads.append(margins[places[0]])
        elif len(own) != len(wanted):
            leads.append(float("inf"))  # one goes on where the other has ended
    return Check("greedy tokens, lead of the CPU's", max(leads), 2 * bound)
