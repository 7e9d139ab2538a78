"""Scores on reasoning benchmarks in the record of a run, as metrics for pages and claims."""

from collections.abc import Mapping, Sequence
from typing import Any

from cory.config import GEOMETRIC_MEAN

# name in a record -> as the paper's tables have it
BENCHMARKS = {
    "mmlu": "MMLU",
    "bbh": "BBH",
    "mutual": "Mutual",
    "arc_easy": "ARC-e",
    "arc_challenge": "ARC-c",
    "logiqa2": "LGQA2",
    "winogrande": "WGrande",
    "piqa": "PIQA",
}
BENCHMARK_COLUMNS = BENCHMARKS | {GEOMETRIC_MEAN: "GM"}
COT = {"bbh_cot": "BBH, CoT"}  # asked for a chain of thought
IN_RECORD = "benchmarks"  # in a record
FAMILY = "benchmark/"  # how the metrics' names begin


def metric_of(name: str, part: str = "") -> str:
    """The metric of a benchmark; part: `_stderr` for its standard error."""
    return f"{FAMILY}{name}{part}/agent_0"


def benchmark_metrics(record: Mapping[str, Any]) -> dict[str, float]:
    """The benchmarks of a record as metrics: scores from 0 to 1, and their standard errors."""
    found = {}
    for agent, scores in record.get(IN_RECORD, {}).items():
        for name, score in scores.items():
            found[f"{FAMILY}{name}/{agent}"] = float(score["value"])
            if score.get("stderr") is not None:
                found[f"{FAMILY}{name}_stderr/{agent}"] = float(score["stderr"])
    return found


def without_benchmarks(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The metrics of a run as it logged them, without benchmarks."""
    return [
        {name: value for name, value in line.items() if not name.startswith(FAMILY)}
        for line in lines
    ]


def without(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record without its benchmarks, as it was when the run finished."""
    return {key: value for key, value in record.items() if key != IN_RECORD}


def lost(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether a record names benchmarks of agents that the other one does not."""
    return bool(_named(old) - _named(new))


def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The new record, with the old one's agents where it would lose benchmarks of theirs.

    Numbers of one agent belong together: it is all of them from one record.
    """
    theirs, ours = old.get(IN_RECORD, {}), new.get(IN_RECORD, {})
    kept = {who: scores for who, scores in theirs.items() if scores.keys() - ours.get(who, {})}
    both = {**ours, **kept}
    return {**without(new), **({IN_RECORD: both} if both else {})}


def _named(record: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {(who, name) for who, scores in record.get(IN_RECORD, {}).items() for name in scores}
