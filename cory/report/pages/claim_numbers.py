"""The numbers behind a verdict, as text: per seed, over seeds, difference and interval."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cory.report.claims.intervals import Interval, smallest_detectable
from cory.report.claims.judge import BY_INTERVAL, HOLDS, Compared, Outcome, holds
from cory.report.claims.sides import DOMINATES, Sides
from cory.report.tables.markdown import DASH

FEW_PARTS = 2  # of a claim, of which all numbers are shown


@dataclass(frozen=True)
class Numbers:
    """The cells of a claim in a table; dashes where nothing was compared."""

    per_seed: str = DASH
    mean: str = DASH
    difference: str = DASH  # with its 90 % interval and what the claim says about it
    in_short: str = DASH  # means, difference and interval; of many comparisons, how many hold
    seeds: str = DASH
    detectable: str = DASH  # the smallest difference that as many seeds could show


def numbers_of(claim: Mapping[str, Any], outcome: Outcome) -> Numbers:
    """All numbers of a judged claim."""
    if outcome.mean is None:
        return Numbers()
    listed = [f"{seed}: {_sides(claim, sides)}" for seed, sides in sorted(outcome.seeds.items())]
    return Numbers(
        "<br>".join(listed),
        _mean(claim, outcome),
        _differences(claim, outcome.mean, outcome.parts),
        _in_short(claim, outcome.mean, outcome.parts),
        str(len(outcome.seeds)),
        _detectable(claim, outcome.parts),
    )


def _differences(
    claim: Mapping[str, Any], mean: Sequence[Sides], compared: Sequence[Compared]
) -> str:
    """Difference, interval and what the claim asks of it; of many, those that do not hold."""
    parts = claim["parts"]
    texts = [
        difference_text(part, sides, one.interval)
        for part, sides, one in zip(parts, mean, compared, strict=True)
    ]
    if len(parts) <= FEW_PARTS:
        return "; ".join(texts)
    calls = [one.call for one in compared]
    counted = [f"{calls.count(kind)} {kind}" for kind in BY_INTERVAL if kind in calls]
    rest = [
        f"{part.get('name', number)}: {text}"
        for number, (part, text, kind) in enumerate(zip(parts, texts, calls, strict=True), 1)
        if kind != HOLDS
    ]
    listed = f" (not: {'; '.join(rest)})" if rest else ""
    return f"of {len(parts)} comparisons {', '.join(counted)}{listed}"


def _in_short(claim: Mapping[str, Any], mean: Sequence[Sides], compared: Sequence[Compared]) -> str:
    """`67.2 vs 2 x 60.3: -53.3 (-81.5 to -25.1)`; of many comparisons, how many hold.

    Of a frontier beside another one: how many of the other's points it meets.
    """
    if [part["relation"] for part in claim["parts"]] == [DOMINATES]:
        return difference_text(claim["parts"][0], mean[0], None)
    if len(compared) > FEW_PARTS or any(one.interval is None for one in compared):
        holding = sum(one.call == HOLDS for one in compared)
        return f"{holding} of {len(compared)} comparisons hold"
    return "; ".join(
        f"{_compared(part, sides)}: {number(own.mean)} ({number(own.low)} to {number(own.high)})"
        for part, sides, one in zip(claim["parts"], mean, compared, strict=True)
        if (own := one.interval)
    )


def difference_text(part: Mapping[str, Any], sides: Sides, own: Interval | None) -> str:
    """`-0.41 [-0.50, -0.31], claim: < 0`. sides: means over seeds."""
    if part["relation"] == DOMINATES:
        return f"{sides.left:.3g} of {sides.right:g} points met, mean over seeds"
    side = f"within ± {number(sides.margin)}" if part["relation"] == "~" else (
        f"{part['relation']} 0".replace("<=", "≤")
    )  # fmt: skip
    if own is None:
        difference = sides.left - float(part.get("factor", 1)) * sides.right
        return f"{number(difference)} [no interval], claim: {side}"
    return f"{number(own.mean)} [{number(own.low)}, {number(own.high)}], claim: {side}"


def _detectable(claim: Mapping[str, Any], compared: Sequence[Compared]) -> str:
    """The smallest detectable difference of each comparison, where their spread is known.

    None of an equality: a difference that is found there speaks against it.
    """
    if len(compared) > FEW_PARTS:
        return DASH
    known = [
        one.interval
        for part, one in zip(claim["parts"], compared, strict=True)
        if part["relation"] != "~" and one.interval and one.interval.std
    ]
    found = [number(smallest_detectable(one.std or 0.0, one.n)) for one in known]
    return "; ".join(found) or DASH


def _sides(claim: Mapping[str, Any], sides: Sequence[Sides]) -> str:
    """The numbers of each part of a claim; of a claim with many parts, of those that fail."""
    parts = claim["parts"]
    if len(parts) <= FEW_PARTS:
        return "; ".join(_compared(part, one) for part, one in zip(parts, sides, strict=True))
    failing = [
        f"{part.get('name', number)}: {_compared(part, one)}"
        for number, (part, one) in enumerate(zip(parts, sides, strict=True), 1)
        if not holds(part, one)
    ]
    listed = f" (not: {'; '.join(failing)})" if failing else ""
    return f"{len(parts) - len(failing)} of {len(parts)} comparisons{listed}"


def _mean(claim: Mapping[str, Any], outcome: Outcome) -> str:
    """The numbers of a claim as mean and standard deviation over seeds."""
    assert outcome.mean is not None
    parts = claim["parts"]
    if len(parts) > FEW_PARTS:
        holding = sum(map(holds, parts, outcome.mean))
        return f"{holding} of {len(parts)} comparisons"
    if outcome.std is None:
        return _sides(claim, outcome.mean)
    return "; ".join(
        _compared(part, mean, std)
        for part, mean, std in zip(parts, outcome.mean, outcome.std, strict=True)
    )


def _compared(part: Mapping[str, Any], sides: Sides, std: Sides | None = None) -> str:
    """One comparison as text: `left vs factor x right (margin)`."""
    if part["relation"] == DOMINATES:
        return f"{sides.left:.3g} of {sides.right:g} points"
    factor = f"{part['factor']:g} x " if "factor" in part else ""
    left, right = number(sides.left), number(sides.right)
    if not isinstance(part["right"], Mapping):
        right = f"{sides.right:g}"
    elif std is not None:
        right = f"{right} ± {number(std.right)}"
        right = f"({right})" if factor else right
    if std is not None:
        left = f"{left} ± {number(std.left)}"
    margin = f" (margin {number(sides.margin)})" if part["relation"] == "~" else ""
    return f"{left} vs {factor}{right}{margin}"


def number(value: float) -> str:
    """Three significant digits: two decimals would hide what decides a claim on small numbers."""
    return f"{value:#.3g}" if 1e-4 <= abs(value) < 1e3 else f"{value:.3g}"
