"""How groups of runs compare: mean, spread and interval over seeds, and differences by seed.

A group is what `run_groups` makes of runs: equal settings but for the seed. The first group is what
the others are compared with.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cory.functional.statistics import mean, t_interval
from cory.report.agent_names import agent_name
from cory.report.before_after import KL, LAST, POLICY, changes
from cory.report.conclusions import HEADLINES, title
from cory.report.run_groups import group_runs, grouping_keys, without_repeats
from cory.runs.run_dir import METRICS, read_lines
from cory.runs.sweeps.differences import seed_of, settings_of

EVALUATION = "eval/"
CHANGE = "change/"  # begins what training changed of a metric, where a run evaluated before it
SCORE = "objective/score/"

Interval = tuple[float, float]
Pair = str  # a seed, with the settings that are pooled


@dataclass(frozen=True)
class Group:
    """Runs that are pooled, and their numbers."""

    label: str
    settings: dict[str, Any]  # by which the groups are told apart
    runs: list[Path]
    values: dict[Pair, dict[str, float]]  # of each run: metric -> value

    def of(self, metric: str) -> dict[Pair, float]:
        """The values of the runs that have this metric."""
        return {pair: own[metric] for pair, own in self.values.items() if metric in own}


@dataclass(frozen=True)
class Entry:
    """A metric of a group; None: not known with so few runs."""

    count: int
    mean: float
    std: float | None  # of the sample, n - 1
    interval: Interval | None  # 95 %, of the mean
    pairs: int = 0  # seeds that the first group has, too; 0 in the first group
    difference: float | None = None  # to the first group, mean over pairs
    difference_interval: Interval | None = None

    @property
    def verdict(self) -> str:
        """What the interval of the difference says, in a word; empty without one."""
        if self.difference_interval is None:
            return ""
        low, high = self.difference_interval
        if low == high == 0:
            return "equal"
        return "higher" if low > 0 else "lower" if high < 0 else "undecided"


@dataclass(frozen=True)
class Comparison:
    """Groups of runs side by side; the first is what the others are compared with."""

    keys: list[str]  # settings by which groups are told apart
    pooled: list[str]  # settings that differ within groups
    groups: list[Group]
    repeated: int  # runs left out, as another with equal settings and seed was given after them

    @property
    def metrics(self) -> list[str]:
        """Every metric that a run has, by name."""
        return sorted({m for g in self.groups for own in g.values.values() for m in own})

    def entry(self, group: Group, metric: str) -> Entry | None:
        """A metric of one group; None where no run of it has the metric."""
        own, first = group.of(metric), self.groups[0].of(metric)
        if not own:
            return None
        values = list(own.values())
        std = float(np.std(values, ddof=1)) if len(values) > 1 else None
        entry = Entry(len(values), mean(values), std, t_interval(values))
        differences = [own[pair] - first[pair] for pair in own if pair in first]
        if group is self.groups[0] or not differences:
            return entry
        return Entry(
            entry.count,
            entry.mean,
            entry.std,
            entry.interval,
            len(differences),
            mean(differences),
            t_interval(differences),
        )

    def headlines(self) -> dict[str, str]:
        """The metrics that are shown unless others are asked for -> what a table calls them.

        What the runs are judged by and how training changed it, else the reward in training; and
        the KL.
        """
        every = self.metrics
        found: list[str] = []
        for pattern in HEADLINES:
            found = found or [metric for metric in every if re.fullmatch(pattern, metric)]
        if found and "/vote/" in found[0]:  # the end of a debate is what counts
            found = [max(found, key=lambda metric: int(metric.rpartition("_")[2]))]
        found += [f"{CHANGE}{metric}" for metric in found if f"{CHANGE}{metric}" in every]
        policies = re.compile(rf"({KL if found else f'{SCORE}|{KL}'}){POLICY}")
        found += sorted(filter(policies.fullmatch, every), reverse=not found)
        return {metric: self.called(metric) for metric in found or every[:4]}

    def called(self, metric: str) -> str:
        """A metric in words; as it is where there are none for it."""
        if metric.startswith(CHANGE):
            return f"change by training: {title(metric.removeprefix(CHANGE), {})}"
        if re.fullmatch(f"{SCORE}{POLICY}", metric):
            return f"reward in training of {agent_name(metric.removeprefix(SCORE))}"
        return title(metric, {})


def compare(run_dirs: Sequence[Path], group_by: Sequence[str] = ()) -> Comparison:
    """Groups of runs, told apart by every setting that differs but the seed.

    run_dirs: with metrics; group_by: see `run_groups.grouping_keys`
    """
    keys, pooled = grouping_keys(run_dirs, group_by)
    parted, repeated = without_repeats(group_runs(run_dirs, group_by))
    groups = []
    for label, own in parted.items():
        flat = settings_of(own[0])
        values = {_pair(run_dir, pooled): end_values(run_dir) for run_dir in own}
        told = {key: flat[key] for key in keys if key in flat}
        groups.append(Group(label, told, own, values))
    return Comparison(keys, pooled, groups, repeated)


def end_values(run_dir: Path) -> dict[str, float]:
    """What a run ended with, by metric.

    Of an evaluation the last value, else the mean of the last iterations; below `change/` what
    training changed.
    """
    lines = read_lines(run_dir / METRICS)
    found: dict[str, list[float]] = {}
    for line in lines:
        for metric, value in line.items():
            if metric != "iteration" and isinstance(value, int | float):
                found.setdefault(metric, []).append(float(value))
    ends = {
        metric: values[-1] if metric.startswith(EVALUATION) else mean(values[-LAST:])
        for metric, values in found.items()
    }
    return ends | {f"{CHANGE}{row.metric}": row.difference for row in changes(run_dir, lines)}


def _pair(run_dir: Path, pooled: Sequence[str]) -> Pair:
    flat: Mapping[str, Any] = settings_of(run_dir) if pooled else {}
    return str([seed_of(run_dir), *(flat.get(key) for key in pooled)])
