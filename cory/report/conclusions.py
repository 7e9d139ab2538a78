"""What training changed, in words: the table of before and after, and sentences on it."""

import re
from collections.abc import Mapping, Sequence

from cory.report.agent_names import POLICY, agent_name
from cory.report.before_after import (
    COMBINED,
    FELL,
    KL,
    LEAST_PROMPTS,
    ROSE,
    UNDECIDED,
    Change,
)
from cory.report.interval_text import digits_for, interval_text

NOTHING = "no difference can be told"
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
IN_TRAINING = {KL: "KL in training (nats)", COMBINED: "combined reward in training"}
STAYED = "stayed"
MOST_NAMED = 3  # policies whose numbers a sentence names one by one
# the metrics that a sentence is about: of each run the first kind that it has
HEADLINES = (
    r"eval/win_rate/.+",
    r"eval/vote/turn_\d+",
    r"eval/verifier_auc/.+",
    rf"eval/pass_at_\d+/{POLICY}",
    rf"eval/score/{POLICY}",
    r"eval/solved/.+",
)


def table(found: Sequence[Change], roles: Mapping[str, str]) -> str:
    """The table as text: metric, before, after, difference with its interval, n; empty of none."""
    if not found:
        return ""
    names = [title(change.metric, roles) for change in found]
    wide = max(26, *(len(name) for name in names)) + 2
    intervals = [
        ""
        if change.low is None or change.high is None
        else interval_text(change.low, change.high, 3, "+")
        for change in found
    ]
    across = max(19, *map(len, intervals))
    head = (
        f"{'before and after training':{wide}}{'before':>9}{'after':>9}"
        f"{'difference':>12}  {'95 % interval':<{across}}{'n':>5}"
    )
    rows = [head]
    for name, interval, change in zip(names, intervals, found, strict=True):
        count = "" if change.n is None else str(change.n)
        rows.append(
            f"{name:{wide}}{change.before:>9.3f}{change.after:>9.3f}{change.difference:>+12.3f}"
            f"  {interval:<{across}}{count:>5}".rstrip()
        )
    return "\n".join(rows)


def title(metric: str, roles: Mapping[str, str]) -> str:
    """What a metric is called."""
    for family, words in IN_TRAINING.items():
        if metric.startswith(family):
            return f"{words} of {agent_name(metric.removeprefix(family), roles)}"
    for pattern, words, whose in TITLES:
        match = re.fullmatch(f"eval/{pattern}", metric)
        if match:
            *first, who = match.groups() or ("",)
            name = "all agents" if who == "team" else agent_name(who, roles)
            return " ".join(filter(None, [words.format(*first), whose.format(name)]))
    return metric


def headlines(found: Sequence[Change]) -> list[Change]:
    """The rows of the metric that matters most: one per agent.

    Of a debate, its last turn; of games, one per opponent.
    """
    for pattern in HEADLINES:
        about = [change for change in found if re.fullmatch(pattern, change.metric)]
        if about:
            return about[-1:] if "/vote/" in about[0].metric else about
    return []


def sentences(found: Sequence[Change], roles: Mapping[str, str]) -> list[str]:
    """What the table says in words: a sentence on each headline, and what the training cost."""
    about = headlines(found)
    if not about:
        return []
    return [*(sentence(change, roles) for change in about), *cost(found, roles)]


def sentence(change: Change, roles: Mapping[str, str]) -> str:
    """One change in words."""
    name = title(change.metric, roles)
    name = name[0].upper() + name[1:]
    verdict = change.verdict
    if change.low is None or change.high is None:
        return f"{name} changed by {change.difference:+.2f}, of one prompt: {NOTHING}."
    low, high = change.low, change.high
    if verdict == FELL:
        low, high = -high, -low
    digits = digits_for((low, high), 2)
    how = (
        f"changed by {change.difference:+.{digits}f}"
        if verdict == UNDECIDED
        else f"{verdict} by {abs(change.difference):.{digits}f}"
    )
    said = f"{name} {how} (95 % interval {interval_text(low, high, 2)}, {change.n} prompts)"
    if verdict != UNDECIDED:
        return f"{said}."
    few = change.n is not None and change.n < LEAST_PROMPTS
    return f"{said}: {NOTHING}{f' from fewer than {LEAST_PROMPTS}' if few else ''}."


def cost(found: Sequence[Change], roles: Mapping[str, str]) -> list[str]:
    """The KL that a training by rewards ended with, and what is left of the reward without it."""
    kl = [change for change in found if change.metric.startswith(KL)]
    combined = [change for change in found if change.metric.startswith(COMBINED)]
    if not kl:
        return []
    if len(kl) > MOST_NAMED:
        ends = [change.after for change in kl]
        said = f"It cost {min(ends):.2f} to {max(ends):.2f} nats of KL to the reference"
        fell = sum(change.difference < 0 for change in combined)
        rest = f"fell for {fell} of {len(combined)} policies" if combined else ""
    else:
        names = [agent_name(change.metric.removeprefix(KL), roles) for change in kl]
        each = [f"{change.after:.2f} ({name})" for change, name in zip(kl, names, strict=True)]
        alone = len(kl) == 1
        said = f"It cost {f'{kl[0].after:.2f}' if alone else listed(each)} nats of KL"
        said += " to the reference"
        rest = listed([_moved(change, combined[:place]) for place, change in enumerate(combined)])
    if not rest:
        return [f"{said}."]
    return [f"{said}; the combined reward in training (reward - kl_coef x KL) {rest}."]


def _moved(change: Change, before: Sequence[Change]) -> str:
    """From what to what; which way it went unless the one before it is said to go the same."""
    way = _way(change)
    said = bool(before) and _way(before[-1]) == way
    before_it, after = (round(value, 2) + 0.0 for value in (change.before, change.after))  # no -0
    where = f"at {after:.2f}" if way == STAYED else f"from {before_it:.2f} to {after:.2f}"
    return where if said else f"{way} {where}"


def _way(change: Change) -> str:
    """Which way a number went, as far as two decimals show it."""
    if round(change.before, 2) == round(change.after, 2):
        return STAYED
    return FELL if change.difference < 0 else ROSE


def listed(words: Sequence[str]) -> str:
    """`a, b and c`."""
    *first, last = words or [""]
    return f"{', '.join(first)} and {last}" if first else last
