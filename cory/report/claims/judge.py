"""Claims about metrics of runs, judged on the records. Claims are data: conf/paper/.

docs/studies.md says how a claim is judged; what is said there and what is done here go together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cory.report.claims.intervals import TAIL, Interval, interval
from cory.report.claims.measures import Absent, Records
from cory.report.claims.sides import (
    DOMINATES,
    RELATIONS,
    ClaimPart,
    Sides,
    difference,
    experiments,
    sides_of,
)

HOLDS, CONTRADICTED, UNDECIDED, NOT_RUN = "holds", "contradicted", "undecided", "not run"
BY_INTERVAL = (HOLDS, CONTRADICTED, UNDECIDED)


@dataclass(frozen=True)
class Compared:
    """One comparison of a claim over all seeds."""

    interval: Interval | None  # of left - factor x right; None where there is none
    call: str  # holds | contradicted | undecided, by this interval alone


@dataclass(frozen=True)
class Outcome:
    """A judged claim with its numbers. A list has one entry per part of the claim."""

    seeds: dict[int, list[Sides]]  # of the seeds that all its experiments have
    mean: list[Sides] | None
    std: list[Sides] | None  # the sample's (n - 1); None below two seeds
    parts: list[Compared]  # empty where no seed has numbers
    kind: str  # holds | contradicted | undecided | not run
    why: str  # of what is not decided by intervals; perhaps empty
    by_intervals: bool = False  # intervals could decide it either way, whether or not they do


def judge(
    claim: Mapping[str, Any],
    records: Records,
    seeds: Sequence[int],
    window: int,
    exact: bool = False,
) -> Outcome:
    """What the intervals of a claim's comparisons, paired by seed, say about it.

    claim: with `parts`, all of which must hold, or as many as `at_least` says
    exact: its numbers are computed, not measured: no interval is needed
    """
    parts: Sequence[ClaimPart] = claim["parts"]
    for part in parts:
        if part["relation"] not in RELATIONS:
            raise ValueError(f"{claim['id']}: relation must be one of {', '.join(RELATIONS)}")
    found: dict[int, list[Sides]] = {}
    absent: list[str] = []
    for seed in seeds:
        if all(seed in records.get(name, {}) for name in experiments(claim)):
            try:
                found[seed] = [sides_of(claim["id"], one, records, seed, window) for one in parts]
            except Absent as error:
                absent.append(str(error))
    columns = list(zip(*found.values(), strict=True))
    mean = [_over_seeds(column, np.mean) for column in columns] if found else None
    std = [_over_seeds(column, _deviation) for column in columns] if len(found) > 1 else None
    compared = [
        Compared(_interval(part, column), call(part, column, exact=exact))
        for part, column in zip(parts, columns, strict=False)
    ]
    missing = len(seeds) - len(found) - len(absent)
    kind, why, by_intervals = UNDECIDED, "", False
    if missing:
        kind, why = NOT_RUN, f" ({missing} of {len(seeds)} seeds)"
    elif absent:
        why = f" ({len(absent)} of {len(seeds)} seeds: {absent[0]})"
    elif found:
        kind = together(claim, columns, exact)
        by_intervals = not exact and _enough_intervals(claim, columns)
    return Outcome(found, mean, std, compared, kind, why, by_intervals)


def together(
    claim: Mapping[str, Any], columns: Sequence[Sequence[Sides]], exact: bool = False
) -> str:
    """The verdict on a claim with several comparisons.

    Of k comparisons m must hold (m = k: all). At least m that hold: holds. More than k - m that are
    contradicted: contradicted. A verdict that one of several comparisons can bring about asks each
    for a wider interval, so that the claim as a whole goes wrong no more often than a single one:
    to hold, tails of 5 % / (k - m + 1); to be contradicted, of 5 % / m (Bonferroni).
    """
    parts = claim["parts"]
    enough, spare = _enough(claim)
    calls = [
        call(part, column, TAIL / (spare + 1), TAIL / enough, exact)
        for part, column in zip(parts, columns, strict=True)
    ]
    if calls.count(HOLDS) >= enough:
        return HOLDS
    return CONTRADICTED if calls.count(CONTRADICTED) > spare else UNDECIDED


def _enough(claim: Mapping[str, Any]) -> tuple[int, int]:
    """How many comparisons must hold, and how many need not."""
    parts = claim["parts"]
    enough = int(claim.get("at_least", len(parts)))
    return enough, len(parts) - enough


def _enough_intervals(claim: Mapping[str, Any], columns: Sequence[Sequence[Sides]]) -> bool:
    """Whether as many comparisons have an interval as some verdict needs."""
    enough, spare = _enough(claim)
    having = sum(
        _has_interval(part, column) for part, column in zip(claim["parts"], columns, strict=True)
    )
    return having >= min(enough, spare + 1)


def _has_interval(part: ClaimPart, column: Sequence[Sides]) -> bool:
    """Whether a comparison has the intervals that decide it; of a frontier, any of them."""
    if part["relation"] == DOMINATES:
        points = [range(len(own)) for own in column[0].frontiers]
        return any(
            interval(gaps, scale=scale) is not None
            for mine in points[0]
            for other in points[1]
            for gaps, scale in _point_gaps(column, mine, other)
        )
    return None not in _gap_intervals(part, column, TAIL)


def call(
    part: ClaimPart,
    column: Sequence[Sides],
    hold_tail: float = TAIL,
    against_tail: float = TAIL,
    exact: bool = False,
) -> str:
    """Whether one comparison holds, is contradicted or stays undecided, by intervals over seeds.

    column: its sides, one per seed
    hold_tail, against_tail: probability beyond each end of the interval that must lie on the
        claim's side, and of the one that must lie on the other
    exact: a single column of exact numbers, which are never undecided
    """
    if exact:
        return HOLDS if all(holds(part, sides) for sides in column) else CONTRADICTED
    if part["relation"] == DOMINATES:
        return _call_frontier(column, hold_tail, against_tail)
    closed = part["relation"] in ("<=", "~")  # the edge is on the claim's side
    lows, highs = [], []
    both = (_gap_intervals(part, column, tail) for tail in (hold_tail, against_tail))
    for inner, outer in zip(*both, strict=True):
        if inner is None or outer is None:
            return UNDECIDED
        lows.append(inner.low)
        highs.append(outer.high)
    if all(low > 0 or (closed and low == 0) for low in lows):
        return HOLDS
    return CONTRADICTED if any(high < 0 for high in highs) else UNDECIDED


def _gap_intervals(part: ClaimPart, column: Sequence[Sides], tail: float) -> list[Interval | None]:
    """The intervals that decide a comparison."""
    errors = [sides.error for sides in column]
    scale = _scale(part, column)
    return [interval(gaps, errors, tail, scale) for gaps in _gaps(part, column)]


def _scale(part: ClaimPart, column: Sequence[Sides]) -> float:
    """The largest absolute number among those that a comparison subtracts."""
    factor = float(part.get("factor", 1))
    return max(
        abs(number)
        for sides in column
        for number in (sides.left, factor * sides.right, sides.margin)
    )


def _gaps(part: ClaimPart, column: Sequence[Sides]) -> list[list[float]]:
    """Numbers per seed that are all positive where the comparison holds by any distance."""
    differences = [difference(part, sides) for sides in column]
    if part["relation"] == ">":
        return [differences]
    if part["relation"] == "~":
        margins = [sides.margin for sides in column]
        return [
            [m - d for m, d in zip(margins, differences, strict=True)],
            [m + d for m, d in zip(margins, differences, strict=True)],
        ]
    return [[-d for d in differences]]


def _call_frontier(column: Sequence[Sides], hold_tail: float, against_tail: float) -> str:
    """`dominates`: every point of the right has one of the left with no less reward and no more KL.

    A pair of points is decided by the intervals of both differences, over seeds. The tails are
    divided by the number of ways in which the verdict can come about by chance.
    """
    ours, theirs = (len(own) for own in column[0].frontiers)
    hold_tail /= ours
    against_tail /= 2 * theirs

    def pair(mine: int, other: int) -> str:
        gaps = _point_gaps(column, mine, other)
        inner = [interval(own, tail=hold_tail, scale=scale) for own, scale in gaps]
        outer = [interval(own, tail=against_tail, scale=scale) for own, scale in gaps]
        if all(one is not None and one.low >= 0 for one in inner):
            return HOLDS
        below = any(one is not None and one.high < 0 for one in outer)
        return CONTRADICTED if below else UNDECIDED

    met = [[pair(mine, other) for mine in range(ours)] for other in range(theirs)]
    if all(HOLDS in calls for calls in met):
        return HOLDS
    return CONTRADICTED if any(set(calls) == {CONTRADICTED} for calls in met) else UNDECIDED


def _point_gaps(column: Sequence[Sides], mine: int, other: int) -> list[tuple[list[float], float]]:
    """How far a point of ours is above one of theirs in reward, then below it in KL.

    Of each: a difference per seed, and the largest absolute number among those subtracted.
    """
    points = [(sides.frontiers[0][mine], sides.frontiers[1][other]) for sides in column]
    rewards = [(ours[0], theirs[0]) for ours, theirs in points]
    kls = [(theirs[1], ours[1]) for ours, theirs in points]
    return [
        ([more - less for more, less in pairs], max(abs(one) for pair in pairs for one in pair))
        for pairs in (rewards, kls)
    ]


def _interval(part: ClaimPart, column: Sequence[Sides]) -> Interval | None:
    """The 90 % interval of a comparison's difference; of `dominates` there is none."""
    if part["relation"] == DOMINATES:
        return None
    differences = [difference(part, sides) for sides in column]
    errors = [sides.error for sides in column]
    return interval(differences, errors, scale=_scale(part, column))


def holds(part: ClaimPart, sides: Sides) -> bool:
    """Whether the relation of a part holds; false where a side is not a number."""
    right = float(part.get("factor", 1)) * sides.right
    if part["relation"] == "~":
        return abs(sides.left - right) <= sides.margin
    if part["relation"] == DOMINATES:
        return sides.left >= right
    if part["relation"] == "<=":
        return sides.left <= right
    return sides.left > right if part["relation"] == ">" else sides.left < right


def _over_seeds(column: Sequence[Sides], statistic: Any) -> Sides:
    columns = np.array([(sides.left, sides.right, sides.margin) for sides in column]).T
    left, right, margin = (float(statistic(values)) for values in columns)
    return Sides(left, right, margin)


def _deviation(values: Any) -> float:
    return float(np.std(values, ddof=1))
