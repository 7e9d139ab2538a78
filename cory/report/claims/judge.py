"""Claims about metrics of runs, judged on the records. Claims are data: conf/paper/."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Lines = list[dict[str, Any]]
# experiment -> seed -> lines of metrics.jsonl, for the runs that count
Records = Mapping[str, Mapping[int, Lines]]
ClaimPart = Mapping[str, Any]  # left, relation, right; perhaps factor, within, name

DOMINATES = "dominates"
RELATIONS = (">", "<", "<=", "~", DOMINATES)
HOLDS = "holds"
MEASURES = (
    "final",
    "middle",
    "first",
    "tenth",
    "last",
    "highest",
    "peak",
    "change",
    "first_half",
    "second_half",
    "climb",
    "fall",
    "unsteadiness",
    "correlation",
)
ITERATION = re.compile(r"iteration_(\d+)")  # the value after so many, from 1


class Absent(ValueError):
    """A run has no value of a metric: nothing that it counts occurred."""


@dataclass(frozen=True)
class Sides:
    """Both sides of one comparison of a claim, of one seed or as a mean over seeds."""

    left: float
    right: float  # before the part's factor
    margin: float  # of the relation `~`; else 0


@dataclass(frozen=True)
class Outcome:
    """A judged claim with its numbers. A list has one entry per part of the claim."""

    seeds: dict[int, list[Sides]]  # of the seeds that all its experiments have
    mean: list[Sides] | None
    std: list[Sides] | None  # the sample's (n - 1); None below two seeds
    holding: int  # seeds for which every part holds
    verdict: str  # holds | does not hold (why) | not run (how many) | not judged (why)


def require_measure(at: str) -> None:
    """Raise ValueError for an unknown measure."""
    if at not in MEASURES and not ITERATION.fullmatch(at):
        raise ValueError(f"at={at} is unknown; use one of {', '.join(MEASURES)}, iteration_<n>")


def measure(lines: Lines, metric: str, at: str, window: int, other: str | None = None) -> float:
    """One number of a run: a measure of a metric over its iterations.

    at: last: the last value; iteration_<n>: the one after so many iterations
        correlation: Pearson's, with the metric `other`, over the lines that have both
        all others look at means over `window` iterations in a row
        first, middle, final: at the beginning, in the middle, at the end
        tenth: right after the first tenth of the run
        highest: the highest of them; peak: where that is, from 0 (the start) to 1 (the end)
        change: final minus first; first_half: middle minus first; second_half: final minus middle
        climb: highest minus first; fall: highest minus final
        unsteadiness: standard deviation over the single iterations of the last half, less what
            chance gives to means of so few responses (`objective/score_se`)
    """
    require_measure(at)
    if match := ITERATION.fullmatch(at):
        lines = [line for line in lines if int(line["iteration"]) + 1 == int(match[1])]
        at = "last"
    values = [float(line[metric]) for line in lines if metric in line]
    if not values:
        raise Absent(f"no {metric}")
    if at == "correlation":
        return _correlation(lines, metric, str(other))
    if at == "last":
        return values[-1]
    if len(values) < window:
        raise ValueError(f"{metric} has {len(values)} values, fewer than the window of {window}")
    if at == "unsteadiness":
        return _unsteadiness(lines, metric)
    means = [float(np.mean(values[i : i + window])) for i in range(len(values) - window + 1)]
    top = int(np.argmax(means))
    points = {
        "first": means[0],
        "tenth": means[min(len(values) // 10, len(means) - 1)],
        "middle": means[(len(values) - window) // 2],
        "final": means[-1],
        "highest": means[top],
        "peak": top / max(len(means) - 1, 1),
    }
    differences = {
        "change": ("final", "first"),
        "first_half": ("middle", "first"),
        "second_half": ("final", "middle"),
        "climb": ("highest", "first"),
        "fall": ("highest", "final"),
    }
    if at in points:
        return points[at]
    minuend, subtrahend = differences[at]
    return points[minuend] - points[subtrahend]


def _unsteadiness(lines: Lines, metric: str) -> float:
    """The standard deviation of an agent's metric over the last half, without sampling noise.

    The variance of a mean over iterations is that of what the policy would give on average, plus
    that of the draw. The latter is the mean of the squared standard errors; of the combined reward,
    too, where the KL's own share is left in. 0 where the draw explains everything.
    """
    error = f"objective/score_se/{metric.rpartition('/')[2]}"
    last = [line for line in lines if metric in line]
    last = last[len(last) // 2 :]
    if not all(error in line for line in last):
        raise Absent(f"no {error.replace('_se', '_std')}")
    drawn = float(np.mean([float(line[error]) ** 2 for line in last]))
    return math.sqrt(max(0.0, float(np.var([line[metric] for line in last], ddof=1)) - drawn))


def _correlation(lines: Lines, metric: str, other: str) -> float:
    """Pearson's correlation of two metrics over iterations; Absent where one does not vary."""
    pairs = np.array(
        [(line[metric], line[other]) for line in lines if metric in line and other in line]
    )
    if len(pairs) < 3 or not np.all(np.ptp(pairs, axis=0) > 0):
        raise Absent(f"no correlation of {metric} with {other}: too few values, or all the same")
    return float(np.corrcoef(pairs[:, 0], pairs[:, 1])[0, 1])


def judge(claim: Mapping[str, Any], records: Records, seeds: Sequence[int], window: int) -> Outcome:
    """Whether a claim holds for the mean over seeds and for every seed.

    claim: with `parts`, all of which must hold, or as many as `at_least` says
    """
    parts: Sequence[ClaimPart] = claim["parts"]
    for part in parts:
        if part["relation"] not in RELATIONS:
            raise ValueError(f"{claim['id']}: relation must be one of {', '.join(RELATIONS)}")
    found: dict[int, list[Sides]] = {}
    absent: dict[int, str] = {}
    for seed in seeds:
        if all(seed in records.get(name, {}) for name in experiments(claim)):
            try:
                found[seed] = [_sides(claim["id"], part, records, seed, window) for part in parts]
            except Absent as error:
                absent[seed] = str(error)
    columns = list(zip(*found.values(), strict=True))
    mean = [_over_seeds(column, np.mean) for column in columns] if found else None
    std = [_over_seeds(column, _deviation) for column in columns] if len(found) > 1 else None
    enough = int(claim.get("at_least", len(parts)))
    holding = sum(sum(map(holds, parts, sides)) >= enough for sides in found.values())
    by_mean = mean is not None and sum(map(holds, parts, mean)) >= enough
    verdict = _verdict(len(seeds), len(found), list(absent.values()), holding, by_mean)
    return Outcome(found, mean, std, holding, verdict)


def holds(part: ClaimPart, sides: Sides) -> bool:
    """Whether the relation of a part holds; false where a side is not a number."""
    right = float(part.get("factor", 1)) * sides.right
    if part["relation"] == "~":
        return abs(sides.left - right) <= sides.margin
    if part["relation"] == DOMINATES:
        return sides.left >= right
    if part["relation"] == "<=":
        return sides.left <= right
    return sides.left > right if part["relation"] == ">" else sides.left < right


def operands(claim: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The operands of a claim: all mappings in it that name experiments."""
    for part in claim["parts"]:
        for operand in (part["left"], part["right"], part.get("within", {}).get("of")):
            while isinstance(operand, Mapping):
                yield operand
                operand = operand.get("minus")


def experiments(claim: Mapping[str, Any]) -> set[str]:
    """The names of the experiments that a claim compares."""
    return {
        name
        for operand in operands(claim)
        for name in operand.get("experiments", [operand.get("experiment")])
    }


def metrics(claim: Mapping[str, Any]) -> set[str]:
    """The names of the metrics that a claim compares."""
    return {
        name
        for operand in operands(claim)
        for name in (
            [operand[key] for key in ("metric", "with") if key in operand]
            or frontier_metrics(operand)
        )
    }


def frontier_metrics(operand: Mapping[str, Any]) -> tuple[str, str]:
    """The two metrics of an agent's frontier: task reward and KL."""
    return f"objective/score/{operand['agent']}", f"objective/kl/{operand['agent']}"


def _sides(name: str, part: ClaimPart, records: Records, seed: int, window: int) -> Sides:
    """Both sides and the margin of a part, for one seed."""

    def number(experiment: str, metric: str, at: str, other: str | None = None) -> float:
        try:
            return measure(records[experiment][seed], metric, at, window, other)
        except Absent as error:
            raise Absent(f"{experiment} has {error}") from None
        except ValueError as error:
            raise ValueError(f"{name}: {experiment} seed {seed}: {error}") from None

    def side(operand: Any) -> float:
        if not isinstance(operand, Mapping):
            return float(operand)
        own = number(operand["experiment"], operand["metric"], operand["at"], operand.get("with"))
        return own - side(operand["minus"]) if "minus" in operand else own

    def points(operand: Mapping[str, Any]) -> list[tuple[float, float]]:
        score, kl = frontier_metrics(operand)
        return [
            (number(experiment, score, "final"), number(experiment, kl, "final"))
            for experiment in operand["experiments"]
        ]

    if part["relation"] == DOMINATES:
        ours, theirs = points(part["left"]), points(part["right"])
        beaten = sum(any(s >= score and k <= kl for s, k in ours) for score, kl in theirs)
        return Sides(beaten, len(theirs), 0.0)
    margin = 0.0
    if part["relation"] == "~":
        margin = part["within"]["share"] * abs(side(part["within"]["of"]))
    return Sides(side(part["left"]), side(part["right"]), margin)


def _over_seeds(column: Sequence[Sides], statistic: Any) -> Sides:
    numbers = np.array([(sides.left, sides.right, sides.margin) for sides in column])
    return Sides(*(float(statistic(numbers[:, i])) for i in range(3)))


def _deviation(values: Any) -> float:
    return float(np.std(values, ddof=1))


def _verdict(seeds: int, found: int, absent: Sequence[str], holding: int, mean_holds: bool) -> str:
    """The verdict in words.

    absent: of the seeds whose runs lack a metric, which
    """
    so_far = f"; holds in {holding} of the other {found}" if found else ""
    missing = seeds - found - len(absent)
    if missing:
        return f"not run ({missing} of {seeds} seeds){so_far}"
    if absent:
        return f"not judged ({len(absent)} of {seeds} seeds: {absent[0]}){so_far}"
    if holding == seeds and mean_holds:
        return HOLDS
    by_mean = "the mean does too" if mean_holds else "the mean does not"
    return f"does not hold (holds in {holding} of {seeds} seeds; {by_mean})"
