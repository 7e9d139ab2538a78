"""The numbers behind a verdict, as text."""

from __future__ import annotations

import pytest

from cory.report.claims.intervals import Interval
from cory.report.claims.judge import HOLDS, UNDECIDED, Compared, Outcome
from cory.report.claims.sides import Sides
from cory.report.pages.claim_numbers import numbers_of

OWN = Interval(0.128, 0.054, 0.202, 5, 0.077)


def outcome(*compared: Compared) -> Outcome:
    sides = [Sides(0.628, 0.5, 0.02) for _ in compared]
    return Outcome({0: sides, 1: sides}, sides, sides, list(compared), UNDECIDED, "")


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"relation": ">", "right": {"experiment": "x"}}, "0.628 vs 0.500"),
        ({"relation": ">", "right": {"experiment": "x"}, "factor": 2}, "0.628 vs 2 x 0.500"),
        ({"relation": ">", "right": 0.5}, "0.628 vs 0.5"),
        ({"relation": "~", "right": {"experiment": "x"}}, "0.628 vs 0.500 (margin 0.0200)"),
    ],
)
def test_a_comparison_in_short(part: dict[str, object], said: str) -> None:
    own = "0.128 (0.0540 to 0.202)"
    short = numbers_of({"parts": [part]}, outcome(Compared(OWN, HOLDS))).in_short
    assert short == f"{said}: {own}"
    calls = [Compared(OWN, HOLDS), Compared(OWN, UNDECIDED)]
    assert numbers_of({"parts": [part] * 2}, outcome(*calls)).in_short == f"{short}; {short}"


def test_an_equality_has_no_smallest_detectable_difference() -> None:
    """A difference that would be found speaks against it."""
    parts = [{"relation": relation, "right": {}} for relation in (">", "~", "<")]
    calls = [Compared(OWN, HOLDS)] * 3
    found = numbers_of({"parts": parts[:1]}, outcome(*calls[:1])).detectable
    assert numbers_of({"parts": parts[1:2]}, outcome(*calls[:1])).detectable == "-"
    assert numbers_of({"parts": parts[:2]}, outcome(*calls[:2])).detectable == found
    assert found == "0.105"


def test_many_comparisons_in_short() -> None:
    claim = {"parts": [{"relation": ">", "right": {}}] * 3}
    calls = [Compared(OWN, HOLDS), Compared(OWN, UNDECIDED), Compared(OWN, HOLDS)]
    assert numbers_of(claim, outcome(*calls)).in_short == "2 of 3 comparisons hold"


def test_a_comparison_without_an_interval_in_short() -> None:
    claim = {"parts": [{"relation": ">", "right": {}}]}
    said = numbers_of(claim, outcome(Compared(None, UNDECIDED))).in_short
    assert said == "0 of 1 comparisons hold"


def test_a_frontier_in_short_says_how_many_points_it_meets() -> None:
    claim = {"parts": [{"relation": "dominates", "left": {}, "right": {}}]}
    meets = [Sides(1.0, 4.0, 0.0), Sides(2.0, 4.0, 0.0)]
    mean = [Sides(1.5, 4.0, 0.0)]
    found = Outcome(
        {0: meets[:1], 1: meets[1:]}, mean, mean, [Compared(None, UNDECIDED)], UNDECIDED, ""
    )
    assert numbers_of(claim, found).in_short == "1.5 of 4 points met, mean over seeds"
