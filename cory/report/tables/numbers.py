"""Values of metrics over the seeds of a row, and the agents, turns and roles that have them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cory.functional.statistics import Z
from cory.report.agent_names import POLICY
from cory.report.claims.measures import Absent, measure
from cory.report.records.archive import Archived
from cory.report.records.collect import CountedRuns

PaperRow = dict[str, Any]  # of conf/paper/
# of a seed: the value, and both ends of its 95 % interval (the value itself where none is known)
Estimate = tuple[float, float, float]
# an agent is named by its number, the turn that it plays in a debate, or both
AGENT_NAMES = rf"(?:objective|eval)/score/({POLICY})"


def runs_of(found: CountedRuns, row: PaperRow) -> list[Archived]:
    """The runs of a row, by seed; none of a row without an experiment."""
    seeds = found.counted.get(row.get("experiment", ""), {})
    return [seeds[seed] for seed in sorted(seeds)]


def lines_of(runs: Iterable[Archived]) -> list[dict[str, Any]]:
    """The metrics of all runs, line after line."""
    return [line for run in runs for line in run.lines]


def named(lines: Iterable[Mapping[str, Any]], pattern: str) -> list[str]:
    """The first group of `pattern` in all metric names that it matches, ordered by its numbers."""
    names = {name for line in lines for name in line}
    parts = {match[1] for name in names if (match := re.fullmatch(pattern, name))}
    return sorted(parts, key=lambda part: ([int(n) for n in re.findall(r"\d+", part)], part))


def agents_in_metrics(lines: Iterable[Mapping[str, Any]]) -> list[str]:
    """The agents that metrics name, in their order: agent_0, turn_2, agent_0_turn_2."""
    return named(lines, AGENT_NAMES)


def turns_in(runs: Iterable[Archived], metric: str) -> list[int]:
    """The turns that runs have a metric of."""
    return [int(turn) for turn in named(lines_of(runs), rf"{metric}/turn_(\d+)")]


def agent_label(method: str, agent: str, agents: Sequence[str]) -> str:
    """The method, with a name for one of several agents: LLM1, LLM2, ..., or the turn it plays."""
    if len(agents) == 1:
        return method
    number, turn = re.findall(r"agent_(\d+)", agent), re.findall(r"turn_(\d+)", agent)
    names = [f"LLM{int(digits) + 1}" for digits in number] + [f"turn {digits}" for digits in turn]
    return " ".join([method, *names])


def at_end(runs: Sequence[Archived], metric: str, window: int, at: str = "final") -> list[float]:
    """A measure over the last window of each run that trained and has the metric."""
    having = [run for run in runs if any(metric in line for line in run.lines)]
    return [measure(run.measured, metric, at, window) for run in having]


def last(runs: Sequence[Archived], *metrics: str) -> list[float]:
    """The last value of each run, of whichever of these metrics it has."""
    values = [
        [line[metric] for line in run.lines if metric in line] for run in runs for metric in metrics
    ]
    return [float(own[-1]) for own in values if own]


def estimates(runs: Sequence[Archived], metric: str, who: str) -> list[Estimate]:
    """Per seed: the last value of metric/who with its logged interval."""
    columns = [last(runs, f"{metric}{part}/{who}") for part in ("", "_low", "_high")]
    return list(zip(*columns, strict=True))


def intervals(runs: Sequence[Archived], metric: str, who: str) -> list[Estimate]:
    """Per seed: the last value of metric/who with the interval of its standard error."""
    errors = "_stderr" if metric.startswith("benchmark/") else "_se"
    found = []
    for run in runs:
        width = Z * (last([run], f"{metric}{errors}/{who}") or [0.0])[0]
        found += [(v, v - width, v + width) for v in last([run], f"{metric}/{who}")]
    return found


def at_iterations(runs: Sequence[Archived], metric: str) -> dict[int, list[Estimate]]:
    """Iterations done (0: not fine-tuned) -> the evaluations of all seeds after them."""
    base, _, who = metric.rpartition("/")
    found: dict[int, list[Estimate]] = {}
    for run in runs:
        for line in run.lines:
            if metric in line:
                value = float(line[metric])
                low, high = (
                    float(line.get(f"{base}_{end}/{who}", value)) for end in ("low", "high")
                )
                done = int(line["iteration"]) + 1 if run.record["iterations"] else 0
                found.setdefault(done, []).append((value, low, high))
    return dict(sorted(found.items()))


def correlations(runs: Sequence[Archived], row: PaperRow) -> list[float]:
    """Per seed: of a row's two metrics over iterations; none of a seed where one does not vary."""
    found = []
    for run in runs:
        try:
            found.append(measure(run.lines, row["metric"], "correlation", 1, row["across"]))
        except Absent:
            continue
    return found
