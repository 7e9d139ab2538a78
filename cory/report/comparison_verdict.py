"""What a comparison says in the end: which group is better, by how much, and what would decide."""

import re
from collections.abc import Sequence

from cory.report.comparison import CHANGE, SCORE, Comparison, Group, verdict_on
from cory.report.conclusions import HEADLINES
from cory.report.interval_text import digits_for, interval_text
from cory.report.run_intervals import Spread, seeds_needed

MOST_SEEDS = 1000


def closing(comparison: Comparison, metrics: Sequence[str]) -> list[str]:
    """A sentence for each metric of which more is better; empty without one.

    Of several groups, the two with the highest means; of one group, what training changed.
    metrics: those that are shown
    """
    said = []
    for metric in (m for m in metrics if more_is_better(m)):
        ranked = sorted(
            comparison.having(metric), key=lambda group: _mean(comparison, group, metric)
        )
        if len(ranked) > 1:
            said.append(between(comparison, metric, ranked[-1], ranked[-2]))
        elif ranked and len(comparison.groups) == 1 and f"{CHANGE}{metric}" in metrics:
            said += by_training(comparison, metric, ranked[0])
    return said


def more_is_better(metric: str) -> bool:
    """Whether a metric is one that runs are judged by, or the reward of the training."""
    return any(re.fullmatch(p, metric) for p in HEADLINES) or metric.startswith(SCORE)


def between(comparison: Comparison, metric: str, best: Group, next_best: Group) -> str:
    """Which of two groups is better at a metric, and how sure that is.

    By the seeds that both have: over these the other one may be better.

    best, next_best: by the means over all of their own seeds
    """
    name = _capital(comparison.called(metric))
    difference = comparison.difference(best, next_best, metric)
    if difference is not None and difference.mean < 0:
        best, next_best = next_best, best
        difference = comparison.difference(best, next_best, metric)
    if difference is None:
        return f"{name}: {best.label} has the highest mean, but no seed in common with the next."
    where = _where(comparison, metric, best, next_best, difference)
    if difference.mean == 0:
        return f"{name}: {where}{best.label} and {next_best.label} have equal means: undecided."
    amount = _amount(difference)
    if verdict_on(difference).startswith("higher"):
        return f"{name}: {where}{best.label} is better than {next_best.label} by {amount}."
    return (
        f"{name}: {where}{best.label} has a higher mean than {next_best.label} by {amount}: "
        f"undecided; {what_decides(difference, comparison)}."
    )


def _where(
    comparison: Comparison, metric: str, one: Group, other: Group, difference: Spread
) -> str:
    """Which runs a difference is over, where one of both groups has more of them."""
    runs = "runs" if comparison.pooled else "seeds"
    more = max(len(group.of(metric)) for group in (one, other)) > difference.count
    return f"over the {runs} that both have, " if more else ""


def by_training(comparison: Comparison, metric: str, group: Group) -> list[str]:
    """What training changed over all runs of the only group."""
    entry = comparison.entry(group, f"{CHANGE}{metric}")
    if entry is None or entry.own.count < 2:
        return []
    change = entry.own
    name = _capital(comparison.called(metric))
    verdict = {"higher": "it rose", "lower": "it fell"}.get(
        verdict_on(change).partition(" ")[0], "undecided"
    )
    more = f"; {what_decides(change, comparison)}" if verdict == "undecided" else ""
    return [f"{name} changed by {_amount(change, sign='+')}: {verdict}{more}."]


def what_decides(spread: Spread, comparison: Comparison) -> str:
    """How many runs would show a difference of this size."""
    runs = "runs" if comparison.pooled else "seeds"
    if spread.count < 2:
        return f"more {runs} say more, as seed=0,1,2"
    if not spread.std:
        return "all seeds agree to the last digit: more prompts (evaluation.prompts) say more"
    needed = seeds_needed(spread, MOST_SEEDS)
    if needed is None:
        return f"more than {MOST_SEEDS} {runs} would be needed to show so small a difference"
    rough = " (a rough guess from two)" if spread.count == 2 else ""
    return (
        f"if the difference is real, about {max(needed, spread.count + 1)} {runs} would show it in "
        f"four of five studies{rough}"
    )


def _amount(spread: Spread, sign: str = "") -> str:
    """A difference, its interval where there is one, and what that is from."""
    runs = (
        f"{spread.count} pair{'s' if spread.count > 1 else ''}"
        if not sign
        else (f"{spread.count} runs")
    )
    digits = digits_for([spread.mean, *(spread.interval or ())], 3)
    text = f"{spread.mean:{sign}.{digits}f}"
    if spread.interval is None:
        return f"{text} ({runs}, no interval)"
    over = ", over prompts alone" if spread.over_prompts else ""
    return f"{text} (95 % interval {interval_text(*spread.interval, 3)}, {runs}{over})"


def _mean(comparison: Comparison, group: Group, metric: str) -> float:
    entry = comparison.entry(group, metric)
    return float("-inf") if entry is None else entry.own.mean


def _capital(name: str) -> str:
    return name[0].upper() + name[1:]
