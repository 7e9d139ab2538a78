"""What to try next, from what a finished run has logged: prompts, iterations, penalty, seeds."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from cory.functional.statistics import Z_80, Z, mean, standard_error
from cory.report.agent_names import POLICY
from cory.report.before_after import (
    COMBINED,
    KL,
    LAST,
    LEAST_PROMPTS,
    UNDECIDED,
    Change,
)
from cory.report.conclusions import headlines

COEFFICIENT = "objective/kl_coef/"
EXPLAINED = "ppo/value/explained_variance/"
LOSSES = r"(?:supervised|offline)/loss/.+|verifier/loss"
FEW = 20  # iterations below which a run is called short
NOISE = -0.2  # explained variance from which on a value head is clearly worse than the mean
NEAR = 0.05  # nats to the reference below which agents have hardly moved
MOST_TIMES = 20  # prompts that would decide, as a multiple of those that were asked
CLEAR = 2.0  # standard errors that make a trend

Lines = Sequence[Mapping[str, Any]]  # of metrics.jsonl


def next_steps(
    found: Sequence[Change], lines: Lines, seeds_vary: bool, head_from_0: bool = False
) -> list[str]:
    """Settings to change, one text each, what matters most first; empty without headlines.

    found: the rows of before and after
    seeds_vary: the run is one of several seeds
    head_from_0: the value heads' first weights are 0 already
    """
    about = headlines(found)
    if not about:
        return []
    unsure = [change for change in about if change.verdict == UNDECIDED and change.n]
    steps = [more_prompts(unsure)] if unsure else []
    steps += more_iterations(lines, bool(unsure))
    steps += other_baseline(lines, head_from_0)
    steps += other_penalty(found, lines, bool(unsure))
    if not seeds_vary:
        steps.append(
            "seeds: this is one run, and the interval is about prompts alone; -m seed=0,1,2 says "
            "whether other seeds agree"
        )
    return steps


def more_prompts(unsure: Sequence[Change]) -> str:
    """How many held-out prompts would decide, if the difference is what it seems to be."""
    asked = max(change.n or 0 for change in unsure)
    needed = [prompts_needed(change) for change in unsure]
    known = [max(count, LEAST_PROMPTS) for count in needed if count is not None]
    if not known and asked < LEAST_PROMPTS:
        return f"evaluation.prompts={LEAST_PROMPTS} at least: of {asked} no difference can be told"
    if not known:
        return (
            f"evaluation.prompts: the difference is small beside its interval; an interval half as "
            f"wide needs about four times the prompts ({4 * asked})"
        )
    return (
        f"evaluation.prompts={max(known)}: so many would show a difference of this size in four of "
        f"five studies, if it is real (now {asked})"
    )


def prompts_needed(change: Change) -> int | None:
    """Prompts that would show such a difference in four of five studies; None: far too many.

    The interval's width goes as one over the square root of the prompts, and half of it has to be
    less than the difference by the 80 % quantile of the difference's own error.
    """
    if change.low is None or change.high is None or not change.n or not change.difference:
        return None
    half = (change.high - change.low) / 2
    times = (half * (1 + Z_80 / Z) / abs(change.difference)) ** 2
    if times > MOST_TIMES:
        return None
    return 10 * math.ceil(max(times, 1.2) * change.n / 10)  # in round numbers


def more_iterations(lines: Lines, unsure: bool) -> list[str]:
    """Whether the run was short, or what it learns from still improved when it ended."""
    count = len(lines)
    if improves(lines):
        window = min(LAST, count // 2)
        return [
            f"algorithm.iterations={2 * count}: what it learns from still improved over the last "
            f"{2 * window} iterations"
        ]
    if count < FEW and unsure:
        return [f"algorithm.iterations: {count} are few"]
    return []


def improves(lines: Lines) -> bool:
    """Whether rewards still rose at the end, without rewards whether losses still fell.

    The mean over the last iterations is compared with the mean over as many before them.
    """
    rewards = rf"objective/score/{POLICY}"
    names = {name for line in lines for name in line}
    chosen = [name for name in names if re.fullmatch(rewards, name)]
    sign = 1.0 if chosen else -1.0
    chosen = chosen or [name for name in names if re.fullmatch(LOSSES, name)]
    return any(
        trend(
            [sign * float(line[name]) for line in lines if name in line and line[name] is not None]
        )
        for name in chosen
    )


def trend(values: Sequence[float]) -> bool:
    """Whether values rise at the end by more than their scatter explains."""
    window = min(LAST, len(values) // 2)
    if window < 3:
        return False
    late, early = values[-window:], values[-2 * window : -window]
    errors = standard_error(late) or 0.0, standard_error(early) or 0.0
    return mean(late) - mean(early) > CLEAR * math.hypot(*errors)


def other_baseline(lines: Lines, head_from_0: bool) -> list[str]:
    """Whether a value head ended as a clearly worse prediction of returns than their mean."""
    explained: dict[str, list[float]] = {}
    for line in lines[-LAST:]:
        for name, value in line.items():
            if name.startswith(EXPLAINED) and value is not None:
                explained.setdefault(name, []).append(float(value))
    worst = min(map(mean, explained.values()), default=0.0)
    if worst > NOISE:
        return []
    settings = "advantages=batch" if head_from_0 else "model.value_init=zero, or advantages=batch"
    return [
        f"{settings}: the value head predicts returns worse than "
        f"their mean would (explained variance {worst:.1f}; that of the mean is 0)"
    ]


def other_penalty(found: Sequence[Change], lines: Lines, unsure: bool) -> list[str]:
    """Whether the KL cost more than the reward that it brought, or agents hardly moved."""
    last = lines[-1] if lines else {}
    now = [float(last[name]) for name in last if re.fullmatch(f"{COEFFICIENT}{POLICY}", name)]
    kl = [change.after for change in found if change.metric.startswith(KL)]
    if not now or not kl:
        return []
    gained = sum(c.difference for c in found if c.metric.startswith(COMBINED))
    if max(kl) < NEAR and unsure:
        return [
            f"algorithm.kl_coef below {max(now):.4g}, or a higher algorithm.learning_rate: agents "
            f"hardly left the reference ({max(kl):.3f} nats)"
        ]
    if gained < 0:
        return [
            f"algorithm.kl_coef above {min(now):.4g}: the KL cost more, as the penalty counts it, "
            f"than it brought in reward"
        ]
    return []
