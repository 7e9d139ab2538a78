"""A paper's qualitative statements, judged on our records. The statements are data: conf/paper/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Lines = list[dict[str, Any]]
# experiment -> seed -> lines of metrics.jsonl, for the runs that count
Records = Mapping[str, Mapping[int, Lines]]

RELATIONS = (">", "<", "~")


@dataclass(frozen=True)
class Sides:
    """What one seed, or the mean over seeds, says to a claim."""

    left: float
    right: float  # before the claim's factor
    margin: float  # of the relation `~`; else 0


@dataclass(frozen=True)
class Outcome:
    """A claim beside our numbers."""

    seeds: dict[int, Sides]  # of the seeds that both sides have
    mean: Sides | None
    std: Sides | None  # the sample's (n - 1); None below two seeds
    holding: int  # seeds for which the relation holds
    verdict: str  # holds | does not hold (why) | not run (how many)


def measure(lines: Lines, metric: str, at: str, window: int) -> float:
    """One number of a run.

    at: final, middle, first: mean over `window` iterations there; change: final minus first;
        last_half_std: standard deviation over the iterations of the last half
    """
    values = [float(line[metric]) for line in lines if metric in line]
    if len(values) < window:
        raise ValueError(f"{metric} has {len(values)} values, fewer than the window of {window}")
    middle = (len(values) - window) // 2
    parts = {
        "first": values[:window],
        "middle": values[middle : middle + window],
        "final": values[-window:],
    }
    if at in parts:
        return float(np.mean(parts[at]))
    if at == "change":
        return float(np.mean(parts["final"]) - np.mean(parts["first"]))
    if at == "last_half_std":
        return float(np.std(values[len(values) // 2 :], ddof=1))
    raise ValueError(f"at={at} is unknown; use {', '.join(parts)}, change or last_half_std")


def judge(claim: Mapping[str, Any], records: Records, seeds: Sequence[int], window: int) -> Outcome:
    """Whether a claim holds for the mean over seeds and for every seed."""
    if claim["relation"] not in RELATIONS:
        raise ValueError(f"{claim['id']}: relation must be one of {', '.join(RELATIONS)}")
    found: dict[int, Sides] = {}
    for seed in seeds:
        if all(seed in records.get(name, {}) for name in experiments(claim)):
            found[seed] = _sides(claim, records, seed, window)
    numbers = np.array([(sides.left, sides.right, sides.margin) for sides in found.values()])
    mean = Sides(*numbers.mean(axis=0).tolist()) if found else None
    std = Sides(*numbers.std(axis=0, ddof=1).tolist()) if len(found) > 1 else None
    holding = sum(_holds(claim, sides) for sides in found.values())
    verdict = _verdict(len(seeds), len(found), holding, mean is not None and _holds(claim, mean))
    return Outcome(found, mean, std, holding, verdict)


def experiments(claim: Mapping[str, Any]) -> set[str]:
    """The experiments that a claim is about."""
    operands = (claim["left"], claim["right"], claim.get("within", {}).get("of"))
    return {operand["experiment"] for operand in operands if isinstance(operand, Mapping)}


def _sides(claim: Mapping[str, Any], records: Records, seed: int, window: int) -> Sides:
    """Both sides and the margin for one seed."""

    def number(operand: Any) -> float:
        if not isinstance(operand, Mapping):
            return float(operand)
        lines = records[operand["experiment"]][seed]
        try:
            return measure(lines, operand["metric"], operand["at"], window)
        except ValueError as error:
            raise ValueError(
                f"{claim['id']}: {operand['experiment']} seed {seed}: {error}"
            ) from None

    margin = 0.0
    if claim["relation"] == "~":
        margin = claim["within"]["share"] * abs(number(claim["within"]["of"]))
    return Sides(number(claim["left"]), number(claim["right"]), margin)


def _holds(claim: Mapping[str, Any], sides: Sides) -> bool:
    """The predicate itself; false for anything that is not a number."""
    right = float(claim.get("factor", 1)) * sides.right
    if claim["relation"] == "~":
        return abs(sides.left - right) <= sides.margin
    return sides.left > right if claim["relation"] == ">" else sides.left < right


def _verdict(seeds: int, found: int, holding: int, mean_holds: bool) -> str:
    """The outcome in words."""
    if found < seeds:
        so_far = f"; holds in {holding} of the other {found}" if found else ""
        return f"not run ({seeds - found} of {seeds} seeds){so_far}"
    if holding == seeds and mean_holds:
        return "holds"
    by_mean = "the mean does too" if mean_holds else "the mean does not"
    return f"does not hold (holds in {holding} of {seeds} seeds; {by_mean})"
