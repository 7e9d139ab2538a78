"""How groups of runs compare: mean, spread and interval over seeds, and differences by seed.

A group is what `run_groups` makes of runs: equal settings but for the seed. The first group is what
the others are compared with.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cory.functional.statistics import mean
from cory.report.agent_names import POLICY, agent_name
from cory.report.before_after import KL, LAST, changes
from cory.report.conclusions import HEADLINES, title
from cory.report.run_groups import group_runs, grouping_keys, without_repeats
from cory.report.run_intervals import (
    Interval,
    Scores,
    Spread,
    error_of,
    error_of_difference,
    is_share,
    spread_of,
)
from cory.runs.run_dir import METRICS, SCORES, read_lines
from cory.runs.sweeps.differences import seed_of, settings_of

EVALUATION = "eval/"
CHANGE = "change/"  # begins what training changed of a metric, where a run evaluated before it
SCORE = "objective/score/"
SAME = 1e-6  # two differences that are the same number, but for rounding to float32

Pair = str  # a seed, with the settings that are pooled


@dataclass(frozen=True)
class Group:
    """Runs that are pooled, and their numbers."""

    label: str
    settings: dict[str, Any]  # by which the groups are told apart
    runs: list[Path]
    values: dict[Pair, dict[str, float]]  # of each run: metric -> value
    scores: dict[Pair, Scores | None] = field(default_factory=dict)  # its last evaluation's prompts

    def of(self, metric: str) -> dict[Pair, float]:
        """The values of the runs that have this metric."""
        return {pair: own[metric] for pair, own in self.values.items() if metric in own}


@dataclass(frozen=True)
class Entry:
    """A metric of a group, and its difference to the first group that has it."""

    own: Spread
    difference: Spread | None = None  # of pairs; None: the first group, or no seed in common

    @property
    def verdict(self) -> str:
        """What the interval of the difference says, in a word; empty of a pair without one."""
        if self.difference is None:
            return ""
        return verdict_on(self.difference)


def verdict_on(difference: Spread) -> str:
    """higher, lower or undecided; empty of a single pair without an interval."""
    if difference.interval is None:
        return "undecided" if difference.count > 1 else ""
    low, high = difference.interval
    word = "higher" if low > 0 else "lower" if high < 0 else "undecided"
    return f"{word} (over prompts)" if difference.over_prompts else word


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

    def having(self, metric: str) -> list[Group]:
        """The groups with a run that has this metric."""
        return [group for group in self.groups if group.of(metric)]

    def entry(self, group: Group, metric: str) -> Entry | None:
        """A metric of one group; None where no run of it has the metric."""
        own = group.of(metric)
        if not own:
            return None
        errors = [error_of(metric, group.scores.get(pair)) for pair in own]
        spread = spread_of(list(own.values()), errors, self._bounds(metric))
        first = self.having(metric)[0]
        return Entry(spread, None if group is first else self.difference(group, first, metric))

    def difference(self, group: Group, other: Group, metric: str) -> Spread | None:
        """How much higher a metric is in one group than in another, paired; None without pairs."""
        own, theirs = group.of(metric), other.of(metric)
        pairs = [pair for pair in own if pair in theirs]
        if not pairs:
            return None
        errors = [
            error_of_difference(metric, group.scores.get(pair), other.scores.get(pair))
            for pair in pairs
        ]
        bounds = self._bounds(metric)
        widest = None if bounds is None else (bounds[0] - bounds[1], bounds[1] - bounds[0])
        differences = [own[pair] - theirs[pair] for pair in pairs]
        largest = max(abs(side[pair]) for side in (own, theirs) for pair in pairs)
        return spread_of(differences, errors, widest, largest)

    def repeats_differences(self, metric: str) -> bool:
        """Whether differences in what training changed are those in what it ended with.

        They are where runs that are compared began alike.
        """
        ended = metric.removeprefix(CHANGE)
        if ended == metric:
            return False
        for group in self.groups:
            one, other = self.entry(group, metric), self.entry(group, ended)
            if one is None or one.difference is None:
                continue
            if other is None or other.difference is None:
                return False
            if abs(one.difference.mean - other.difference.mean) > SAME:
                return False
        return True

    def _bounds(self, metric: str) -> Interval | None:
        """Where a mean can lie: a share from 0 to 1, its change by training from -1 to 1."""
        base = metric.removeprefix(CHANGE)
        scores = [line for group in self.groups for line in group.scores.values()]
        if not is_share(base, scores):
            return None
        return (0.0, 1.0) if base == metric else (-1.0, 1.0)

    def headlines(self) -> dict[str, str]:
        """The metrics that are shown unless others are asked for -> what a table calls them.

        What the runs of each group are judged by and how training changed it, else the reward in
        training; and the KL.
        """
        every = self.metrics
        judged = {metric for group in self.groups for metric in judged_by(group)}
        found = [
            metric
            for pattern in HEADLINES
            for metric in every
            if metric in judged and re.fullmatch(pattern, metric)
        ]
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


def judged_by(group: Group) -> list[str]:
    """The metrics that the runs of a group are judged by: the first kind that they have."""
    every = sorted({metric for own in group.values.values() for metric in own})
    for pattern in HEADLINES:
        found = [metric for metric in every if re.fullmatch(pattern, metric)]
        if found and "/vote/" in found[0]:  # the end of a debate is what counts
            return [max(found, key=lambda metric: int(metric.rpartition("_")[2]))]
        if found:
            return found
    return []


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
        scores = {_pair(run_dir, pooled): last_scores(run_dir) for run_dir in own}
        groups.append(Group(label, told, own, values, scores))
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


def last_scores(run_dir: Path) -> Scores | None:
    """What each prompt contributed to a run's last evaluation; None where that is not kept."""
    path = run_dir / SCORES
    lines = read_lines(path) if path.exists() else []
    return lines[-1] if lines else None


def _pair(run_dir: Path, pooled: Sequence[str]) -> Pair:
    flat: Mapping[str, Any] = settings_of(run_dir) if pooled else {}
    return str([seed_of(run_dir), *(flat.get(key) for key in pooled)])
