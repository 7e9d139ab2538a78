"""Intervals over seeds, with values computed by hand, and what they make of a claim."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from cory.report.claims.intervals import interval, smallest_detectable
from cory.report.claims.judge import call, judge, together
from cory.report.claims.measures import stored_error
from cory.report.claims.sides import Sides, difference

# Student's t, 95th percentile (a table of it): 1 degree of freedom 6.314, 2: 2.920, 4: 2.132
T95_2 = 2.919986
ABOVE = {"relation": ">", "left": 0, "right": 0}


def column(*differences: float, margin: float = 0.0, error: float | None = None) -> list[Sides]:
    return [Sides(10 + d, 10, margin, error) for d in differences]


def test_the_interval_of_three_seeds_by_hand() -> None:
    """1, 2 and 3: mean 2, s = 1, half width 2.920 / sqrt(3) = 1.686."""
    own = interval([1.0, 2.0, 3.0])
    assert own is not None and own.std == 1.0 and own.n == 3 and own.mean == 2.0
    assert own.low == pytest.approx(2 - T95_2 / math.sqrt(3), abs=1e-6)
    assert own.high == pytest.approx(2 + T95_2 / math.sqrt(3), abs=1e-6)
    wider = interval([1.0, 2.0, 3.0], tail=0.025)  # t(0.975, 2) = 4.303: a 95 % interval
    assert wider is not None and wider.high == pytest.approx(2 + 4.302653 / math.sqrt(3), abs=1e-6)


def test_seeds_are_paired() -> None:
    """Seeds differ by 10 from each other, the runs of one seed by 1: the pairs decide."""
    left, right = (11.0, 21.0, 31.2), (10.0, 20.0, 30.0)
    records = {
        name: {seed: [{"m": value}] for seed, value in enumerate(values)}
        for name, values in (("one", left), ("two", right))
    }
    asked = {
        "id": "c",
        "parts": [
            {
                "left": {"experiment": "one", "metric": "m", "at": "last"},
                "relation": ">",
                "right": {"experiment": "two", "metric": "m", "at": "last"},
            }
        ],
    }
    outcome = judge(asked, records, [0, 1, 2], window=1)
    (compared,) = outcome.parts
    assert outcome.kind == compared.call == "holds" and compared.interval is not None
    assert compared.interval.mean == pytest.approx(3.2 / 3)
    # unpaired, s of either side is 10, and the interval would be 16 wide to either side
    assert compared.interval.high - compared.interval.mean == pytest.approx(
        T95_2 * math.sqrt(0.04 / 3) / math.sqrt(3), abs=1e-6
    )


@pytest.mark.parametrize(
    ("differences", "by_relation"),
    [
        # mean 2, half width 1.686: above 0
        ((1, 2, 3), {">": "holds", "<": "contradicted", "<=": "contradicted"}),
        ((-1, -2, -3), {">": "contradicted", "<": "holds", "<=": "holds"}),
        # mean 1.6: half width 1.686 reaches 0, though every seed is above it
        ((0.6, 1.6, 2.6), {">": "undecided", "<": "undecided", "<=": "undecided"}),
        # one seed against it, and it holds all the same: 4, 5, -0.1 would not
        ((4.0, 4.4, 4.2), {">": "holds"}),
        ((4.0, 5.0, -0.1), {">": "undecided"}),
    ],
)
def test_the_side_of_an_interval_decides(
    differences: tuple[float, ...], by_relation: dict[str, str]
) -> None:
    for relation, verdict in by_relation.items():
        assert call({"relation": relation}, column(*differences)) == verdict


@pytest.mark.parametrize(
    ("differences", "margin", "verdict"),
    [
        ((-0.1, 0.0, 0.1), 0.2, "holds"),  # half width 0.169
        ((-0.1, 0.0, 0.1), 0.16, "undecided"),
        ((0.9, 1.0, 1.1), 0.8, "contradicted"),  # 0.831 to 1.169
        ((-0.9, -1.0, -1.1), 0.8, "contradicted"),
        ((0.9, 1.0, 1.1), 0.85, "undecided"),  # it begins inside the margin
        ((0.9, 1.0, 1.1), 1.2, "holds"),
    ],
)
def test_equal_up_to_a_margin(differences: tuple[float, ...], margin: float, verdict: str) -> None:
    assert call({"relation": "~"}, column(*differences, margin=margin)) == verdict


def test_a_margin_varies_with_its_seed() -> None:
    """Margin and difference rise together: their gap is what has an interval."""
    sides = [Sides(d, 0, margin) for d, margin in ((1.0, 1.2), (1.2, 1.41), (1.4, 1.59))]
    assert call({"relation": "~"}, sides) == "holds"
    assert call({"relation": "~"}, [Sides(s.left, 0, 1.4) for s in sides]) == "undecided"


def test_one_seed_needs_a_stored_error() -> None:
    assert call(ABOVE, column(1.0)) == "undecided" and interval([1.0]) is None
    own = interval([1.0], [0.5])
    assert own is not None and own.std is None
    assert (own.low, own.high) == pytest.approx((1 - 0.5 * 1.644854, 1 + 0.5 * 1.644854), abs=1e-6)
    assert call(ABOVE, column(1.0, error=0.5)) == "holds"
    assert call(ABOVE, column(1.0, error=0.7)) == "undecided"
    assert call(ABOVE, column(-1.0, error=0.5)) == "contradicted"


def test_equal_differences_say_nothing_without_an_error() -> None:
    assert interval([0.05, 0.05, 0.05]) is None and interval([0.0, 0.0]) is None
    assert call(ABOVE, column(0.05, 0.05, 0.05)) == "undecided"
    # seeds share their prompts: four equal values are as sure as one
    for count in (1, 4):
        own = interval([0.05] * count, [0.02] * count)
        assert own is not None and own.low == pytest.approx(0.05 - 1.644854 * 0.02, abs=1e-6)
    own = interval([0.05] * 2, [0.03, 0.01])
    assert own is not None and own.low == pytest.approx(0.05 - 1.644854 * 0.0005**0.5, abs=1e-6)
    assert interval([0.05] * 4, [0.02, 0.02, 0.02, None]) is None
    assert interval([0.05] * 2, [0.0, 0.0]) is None  # prompts that do not differ say nothing either
    assert interval([1.0, math.nan, 2.0]) is None and interval([]) is None


@pytest.mark.parametrize(
    ("part", "sides"),
    [
        # equal, but 3 x 0.1 and 3 x 0.2 are a hair above 0.3 and 0.6
        ({"relation": "<", "factor": 3}, ((0.3, 0.1), (0.6, 0.2), (0.3, 0.1))),
        ({"relation": ">", "factor": 7}, ((0.7, 0.1), (0.7, 0.1), (1.4, 0.2))),
        ({"relation": "<=", "factor": 7}, ((0.7, 0.1), (0.7, 0.1), (1.4, 0.2))),
    ],
)
def test_rounding_decides_nothing(
    part: dict[str, Any], sides: tuple[tuple[float, float], ...]
) -> None:
    equal = [Sides(left, right, 0.0) for left, right in sides]
    assert any(difference(part, one) for one in equal)
    assert call(part, equal) == "undecided"
    with_errors = [Sides(left, right, 0.0, 0.1) for left, right in sides]
    assert call(part, with_errors) == "undecided"  # 0 is in the interval over prompts
    # what is no rounding decides, however small it is beside the numbers
    apart = [
        Sides(left - d, right, 0.0)
        for (left, right), d in zip(sides, (1e-6, 1.1e-6, 1.2e-6), strict=True)
    ]
    assert call(part, apart) == ("contradicted" if part["relation"] == ">" else "holds")


def test_the_rounding_of_a_margin_decides_nothing() -> None:
    """Both sides of `~`: the margin less a difference that is as large but for rounding."""
    sides = [Sides(left, 0.0, margin) for left, margin in ((0.3, 3 * 0.1), (0.6, 3 * 0.2))]
    assert all(one.margin > one.left for one in sides)
    assert call({"relation": "~"}, [*sides, sides[0]]) == "undecided"


def test_the_rounding_of_a_frontier_decides_nothing() -> None:
    """One point a side, with less KL and a reward that is more by rounding alone."""
    ours, theirs = (3 * 0.1, 3 * 0.2, 3 * 0.1), (0.3, 0.6, 0.3)
    assert all(mine > other for mine, other in zip(ours, theirs, strict=True))
    sides = [
        Sides(1, 1, 0.0, frontiers=(((mine, 1.0),), ((other, 2.0 + mine),)))
        for mine, other in zip(ours, theirs, strict=True)
    ]
    assert call({"relation": "dominates"}, sides) == "undecided"


def test_no_spread_is_shown_of_what_is_rounding() -> None:
    own = interval([1e-17, 2e-17, 1e-17], [0.1] * 3, scale=0.3)
    assert own is not None and own.std == 0.0
    assert interval([1e-17, 2e-17, 1e-17], scale=0.3) is None
    # so small are the numbers themselves
    assert interval([1e-17, 2e-17, 1e-17], scale=1e-16) is not None


@pytest.mark.parametrize(
    ("values", "more", "decided"),
    [
        ((1.0, 2.0, 3.0), {}, True),
        ((-1.0, 0.0, 1.0), {}, True),  # undecided, by its interval
        ((1.0,), {}, False),
        ((1.0, 1.0, 1.0), {}, False),
        ((1.0, math.nan, 2.0), {}, False),
        ((1.0, None, 2.0), {}, False),  # a seed without the metric
        ((1.0, 2.0, 3.0), {"also": (1.0, 1.0, 1.0)}, True),  # one may contradict it
        ((1.0, 2.0, 3.0), {"also": (1.0, 1.0, 1.0), "at_least": 1}, True),  # or let it hold
        ((1.0, 1.0, 1.0), {"also": (1.0, 1.0, 1.0)}, False),
    ],
)
def test_which_claims_intervals_can_decide(
    values: tuple[float | None, ...], more: dict[str, Any], decided: bool
) -> None:
    columns = {"m": values} | ({"n": more["also"]} if "also" in more else {})
    lines = [
        [{name: own[seed] for name, own in columns.items() if own[seed] is not None}]
        for seed in range(len(values))
    ]
    parts = [
        {"left": {"experiment": "e", "metric": name, "at": "last"}, "relation": ">", "right": 0.0}
        for name in columns
    ]
    claim = {"id": "c", "parts": parts} | {k: v for k, v in more.items() if k == "at_least"}
    records = {"e": dict(enumerate(lines))}
    assert judge(claim, records, range(len(values)), window=1).by_intervals == decided
    assert not judge(claim, records, range(len(values)), window=1, exact=True).by_intervals
    # a run that is missing
    assert not judge(claim, records, range(len(values) + 1), window=1).by_intervals


def test_intervals_decide_a_frontier_over_several_seeds() -> None:
    def run(seed: int, kl: float) -> list[dict[str, float]]:
        return [{"objective/score/agent_0": 1.0 + seed, "objective/kl/agent_0": kl}]

    records = {
        name: {seed: run(seed * step, 1.0) for seed in (0, 1)}
        for name, step in (("a", 1), ("b", 2))
    }
    sides = {
        side: {"agent": "agent_0", "experiments": [name]}
        for side, name in (("left", "a"), ("right", "b"))
    }
    claim = {"id": "c", "parts": [{"relation": "dominates", **sides}]}
    assert judge(claim, records, [0, 1], window=1).by_intervals
    assert not judge(claim, records, [0], window=1).by_intervals


def test_of_several_comparisons_all_must_hold() -> None:
    """The third has an interval of 0.314 to 3.686 below 0: at a third of 5 % it reaches 0."""
    good, barely, clearly = column(4, 5, 6), column(-1, -2, -3), column(-4, -4.1, -4.2)
    three = {"parts": [ABOVE] * 3}
    assert together(three, [good, good, good]) == "holds"
    assert call(ABOVE, barely) == "contradicted"
    assert together(three, [good, good, barely]) == "undecided"
    assert together(three, [good, good, clearly]) == "contradicted"


def test_some_of_several_comparisons_must_hold() -> None:
    good, barely, bad = column(4, 4.1, 4.2), column(1, 2, 3), column(-4, -4.1, -4.2)
    two = {"parts": [ABOVE] * 3, "at_least": 2}
    assert call(ABOVE, barely) == "holds"
    assert together(two, [good, good, bad]) == "holds"
    assert together(two, [good, barely, bad]) == "undecided"  # at 2.5 % the interval is wider
    assert together(two, [good, bad, bad]) == "contradicted"


def test_computed_numbers_need_no_interval() -> None:
    assert call(ABOVE, column(0.1), exact=True) == "holds"
    assert call(ABOVE, column(0.0), exact=True) == "contradicted"
    assert call({"relation": "<="}, column(0.0), exact=True) == "holds"


def frontiers(*theirs: tuple[float, float], noise: float = 0.01) -> list[Sides]:
    """Three seeds; ours ends at reward 1 with KL 1, and at reward 2 with KL 3."""
    found = []
    for seed in (-1, 0, 1):
        ours = tuple((s + noise * seed, k) for s, k in ((1.0, 1.0), (2.0, 3.0)))
        other = tuple((s, k + noise * seed) for s, k in theirs)
        found.append(Sides(0, len(theirs), 0, frontiers=(ours, other)))
    return found


def test_a_frontier_is_met_point_by_point() -> None:
    dominates: dict[str, Any] = {"relation": "dominates"}
    assert call(dominates, frontiers((0.5, 1.5), (1.5, 3.5))) == "holds"
    # less KL than either of ours
    assert call(dominates, frontiers((0.5, 1.5), (1.5, 0.5))) == "contradicted"
    assert call(dominates, frontiers((0.5, 1.5), (1.5, 3.5), noise=1.0)) == "undecided"


def test_the_smallest_detectable_difference_has_the_power_it_names() -> None:
    """Known: with 5 seeds and one-sided 5 %, 80 % power needs 1.36 standard deviations."""
    assert smallest_detectable(1.0, 5) == pytest.approx(1.359, abs=1e-3)
    assert smallest_detectable(2.0, 3) == pytest.approx(2 * 2.297, abs=2e-3)
    with pytest.raises(ValueError, match="1 seed has no"):
        smallest_detectable(1.0, 1)


def test_errors_that_runs_store() -> None:
    lines = [
        {"iteration": 0, "eval/vote/turn_1": 0.4, "eval/vote_se/turn_1": 0.05},
        {"iteration": 1, "eval/vote/turn_1": 0.5, "eval/vote_se/turn_1": 0.07},
        {"iteration": 2, "eval/x/a": 0.5, "eval/x_low/a": 0.4, "eval/x_high/a": 0.6},
    ]
    assert stored_error(lines, "eval/vote/turn_1", "last") == 0.07
    assert stored_error(lines, "eval/vote/turn_1", "iteration_1") == 0.05
    assert stored_error(lines, "eval/vote/turn_1", "final") is None
    assert stored_error(lines, "eval/x/a", "last") == pytest.approx(0.1 / 1.959964)
    assert stored_error([{"m": 1.0}], "m", "last") is None


@pytest.mark.slow
def test_nine_of_ten_intervals_hold_the_mean() -> None:
    noise, held = random.Random(0), 0
    for _ in range(2000):
        found = interval([noise.gauss(5, 2) for _ in range(3)])
        assert found is not None
        held += found.low <= 5 <= found.high
    assert held / 2000 == pytest.approx(0.9, abs=0.015)
