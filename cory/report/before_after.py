"""What training changed, as numbers: the rows of the table of before and after.

Both evaluations ask the same prompts with the same random numbers, so that differences are taken
prompt by prompt. `conclusions` says the rows in words.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cory.evaluation.prompt_scores import compared
from cory.functional.statistics import mean, paired_interval
from cory.report.agent_names import POLICY
from cory.runs.run_dir import SCORES, read_lines

LEAST_PROMPTS = 20  # nothing is claimed of fewer: their intervals are too narrow too often
LAST = 10  # iterations that an end value of the training is averaged over
KL = "objective/kl/"
COMBINED = "objective/combined/"
ROSE, FELL, UNDECIDED = "rose", "fell", "undecided"

Scores = Mapping[str, Any]  # a line of prompt_scores.jsonl


@dataclass(frozen=True)
class Change:
    """A row of the table."""

    metric: str
    before: float
    after: float
    low: float | None  # 95 % interval of the difference; None: not known
    high: float | None
    n: int | None  # prompts that the interval is from; None: a number of the training

    @property
    def difference(self) -> float:
        return self.after - self.before

    @property
    def verdict(self) -> str:
        """Which side of zero the interval lies on, if on one, and is from enough prompts."""
        few = self.n is not None and self.n < LEAST_PROMPTS
        if few or self.low is None or self.high is None or self.low <= 0 <= self.high:
            return UNDECIDED
        return ROSE if self.low > 0 else FELL

    def as_line(self) -> dict[str, Any]:
        """As record.json keeps it."""
        verdict = {} if self.n is None else {"verdict": self.verdict}
        return asdict(self) | {"difference": self.difference} | verdict


def changes(run_dir: Path, metrics: Sequence[Mapping[str, Any]]) -> list[Change]:
    """The rows of a run; none where agents were not evaluated before the training.

    metrics: the lines of metrics.jsonl
    """
    scores = scores_of(run_dir)
    found = measured_changes(scores[0], scores[-1]) if len(scores) > 1 else []
    return [*in_the_table(found), *training_changes(metrics)] if found else []


def scores_of(run_dir: Path) -> list[Scores]:
    """The lines of prompt_scores.jsonl that can be compared: from before the training on.

    None where agents were not evaluated before it.
    """
    path = run_dir / SCORES
    scores = read_lines(path) if path.exists() else []
    if not scores or scores[0]["iteration"] >= 0 or not compared(scores[0], scores[-1]):
        return []
    return [line for line in scores if compared(scores[0], line)]


def measured_changes(before: Scores, after: Scores) -> list[Change]:
    """The changes of all metrics that both evaluations have."""
    shares = {name: n for name, n in after["shares"].items() if name in before["shares"]}
    return [
        change_of(name, before["values"][name], values, shares.get(name))
        for name, values in after["values"].items()
        if name in before["values"]
    ]


def change_of(
    metric: str, before: Sequence[float], after: Sequence[float], tries: int | None
) -> Change:
    """The change of one metric.

    before, after: one value per prompt, in the same order
    tries: as for `paired_interval`
    """
    low, high = paired_interval(before, after, tries) or (None, None)
    return Change(metric, mean(before), mean(after), low, high, len(after))


def in_the_table(found: Sequence[Change]) -> list[Change]:
    """Without what says the same twice, or nothing: rewards that are accuracies, empty shares.

    Of debates, the numbers of the whole debate alone.
    """
    if any(change.metric.startswith("eval/vote/") for change in found):
        alone = re.compile(rf"eval/((score|pass_at_\d+|greedy)/{POLICY}|greedy_right/.+)")
        found = [change for change in found if not alone.fullmatch(change.metric)]
    numbers = {c.metric: (c.before, c.after) for c in found}
    kept = []
    for change in found:
        accuracy = numbers.get(change.metric.replace("/score/", "/pass_at_1/"))
        twice = "/score/" in change.metric and accuracy == (change.before, change.after)
        empty = "/solved/" in change.metric and change.before == change.after == 0
        if not twice and not empty:
            kept.append(change)
    return kept


def training_changes(metrics: Sequence[Mapping[str, Any]]) -> list[Change]:
    """KL and combined reward in training: of the first iteration, before any update, and the end.

    These are of each iteration's own prompts, so that there is no interval.
    """
    found = []
    for family in (KL, COMBINED):
        first = metrics[0] if metrics else {}
        for name in (key for key in first if re.fullmatch(f"{family}{POLICY}", key)):
            values = [float(line[name]) for line in metrics if name in line]
            found.append(Change(name, values[0], mean(values[-LAST:]), None, None, None))
    return found
