"""What training changed: the table of before and after, and the same in a sentence.

Both evaluations ask the same prompts with the same random numbers, so that differences are taken
prompt by prompt.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cory.evaluation.prompt_scores import compared
from cory.functional.statistics import mean, paired_interval
from cory.report.agent_names import agent_name
from cory.runs.run_dir import SCORES, read_lines

LAST = 10  # iterations that an end value of the training is averaged over
KL = "objective/kl/"
POLICY = r"(agent_\d+(_turn_\d+)?|turn_\d+)"
ROSE, FELL, UNDECIDED = "rose", "fell", "undecided"
MEANING = {
    ROSE: "training helped",
    FELL: "training made it worse",
    UNDECIDED: "no difference can be told",
}
# how a metric is called, and what its last part is
TITLES = (
    (r"score/(.+)", "held-out reward", "of {}"),
    (r"pass_at_1/(.+)", "held-out accuracy", "of {}"),
    (r"pass_at_(\d+)/(.+)", "held-out pass@{}", "of {}"),
    (r"greedy/(.+)", "held-out result, greedy", "of {}"),
    (r"vote/(.+)", "majority right", "at {}"),
    (r"greedy_vote/(.+)", "majority right, greedy", "at {}"),
    (r"right/(.+)", "single answers right", "at {}"),
    (r"single/(.+)", "first agent right", "at {}"),
    (r"win_rate/(.+)", "win rate", "against {}"),
    (r"win_rate_(\w+)/(.+)", "win rate as {}", "against {}"),
    (r"solved/(.+)", "games solved", "with {}"),
    (r"verifier_auc/.+", "AUC of verdicts", ""),
    (r"verifier_accuracy/.+", "accuracy of verdicts", ""),
)
# the metrics that a sentence is about: of each run the first kind that it has
HEADLINES = (
    r"eval/win_rate/.+",
    r"eval/vote/turn_\d+",
    r"eval/verifier_auc/.+",
    r"eval/pass_at_\d+/agent_\d+",
    r"eval/score/agent_\d+",
    r"eval/solved/.+",
)


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
        """Which side of zero the interval lies on, if on one."""
        if self.low is None or self.high is None or self.low <= 0 <= self.high:
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
    path = run_dir / SCORES
    scores = read_lines(path) if path.exists() else []
    if len(scores) < 2 or scores[0]["iteration"] >= 0 or not compared(scores[0], scores[-1]):
        return []
    before, after = scores[0], scores[-1]
    shares = {name: n for name, n in after["shares"].items() if name in before["shares"]}
    found = [
        change_of(name, before["values"][name], values, shares.get(name))
        for name, values in after["values"].items()
        if name in before["values"]
    ]
    return [*in_the_table(found), *kl_changes(metrics)]


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


def kl_changes(metrics: Sequence[Mapping[str, Any]]) -> list[Change]:
    """KL to the reference in training: of the first iteration, before any update, and at the end.

    These are of each iteration's own prompts, so that there is no interval.
    """
    names = [key for key in metrics[0] if re.fullmatch(f"{KL}{POLICY}", key)] if metrics else []
    found = []
    for name in names:
        values = [float(line[name]) for line in metrics if name in line]
        found.append(Change(name, values[0], mean(values[-LAST:]), None, None, None))
    return found


def table(found: Sequence[Change], roles: Mapping[str, str]) -> str:
    """The table as text: metric, before, after, difference with its interval, n; empty of none."""
    if not found:
        return ""
    names = [title(change.metric, roles) for change in found]
    wide = max(26, *(len(name) for name in names)) + 2
    head = (
        f"{'before and after training':{wide}}{'before':>9}{'after':>9}"
        f"{'difference':>12}  {'95 % interval':<19}{'n':>5}"
    )
    rows = [head]
    for name, change in zip(names, found, strict=True):
        interval = (
            ""
            if change.low is None or change.high is None
            else f"{change.low:+.3f} to {change.high:+.3f}"
        )
        count = "" if change.n is None else str(change.n)
        rows.append(
            f"{name:{wide}}{change.before:>9.3f}{change.after:>9.3f}{change.difference:>+12.3f}"
            f"  {interval:<19}{count:>5}".rstrip()
        )
    return "\n".join(rows)


def title(metric: str, roles: Mapping[str, str]) -> str:
    """What a metric is called."""
    if metric.startswith(KL):
        return f"KL in training (nats) of {agent_name(metric.removeprefix(KL), roles)}"
    for pattern, words, whose in TITLES:
        match = re.fullmatch(f"eval/{pattern}", metric)
        if match:
            *first, who = match.groups() or ("",)
            name = "all agents" if who == "team" else agent_name(who, roles)
            return " ".join(filter(None, [words.format(*first), whose.format(name)]))
    return metric


def sentences(found: Sequence[Change], roles: Mapping[str, str]) -> list[str]:
    """What the table says in words, on the metric that matters most: one sentence per agent.

    Of a debate, on its last turn; of games, one per opponent.
    """
    for pattern in HEADLINES:
        about = [change for change in found if re.fullmatch(pattern, change.metric)]
        if about:
            break
    else:
        return []
    if "/vote/" in about[0].metric:
        about = about[-1:]
    said = [sentence(change, roles) for change in about]
    unsure = [change for change in about if change.verdict == UNDECIDED and change.n]
    if unsure and unsure[0].n:
        said.append(
            f"An interval half as wide needs about four times the prompts "
            f"(evaluation.prompts={4 * unsure[0].n})."
        )
    return said


def sentence(change: Change, roles: Mapping[str, str]) -> str:
    """One change in words."""
    name = title(change.metric, roles)
    name = name[0].upper() + name[1:]
    verdict = change.verdict
    if change.low is None or change.high is None:
        return f"{name} changed by {change.difference:+.2f}, of one prompt: {MEANING[verdict]}."
    unit = "words" if re.match("eval/(win_rate|solved)", change.metric) else "prompts"
    low, high = change.low, change.high
    if verdict == FELL:
        low, high = -high, -low
    how = (
        f"changed by {change.difference:+.2f}"
        if verdict == UNDECIDED
        else f"{verdict} by {abs(change.difference):.2f}"
    )
    return (
        f"{name} {how} (95 % interval {low:.2f} to {high:.2f}, {change.n} {unit}): "
        f"{MEANING[verdict]}."
    )
