"""The numbers behind a verdict, as text."""

from __future__ import annotations

import pytest

from cory.report.claims.intervals import Interval
from cory.report.claims.judge import HOLDS, UNDECIDED, Compared, Outcome
from cory.report.claims.sides import Sides
from cory.report.pages.claim_numbers import numbers_of

OWN = Interval(0.128, 0.054, 0.202, 5, 0.077)


def outcome(*compared: Compared) -> Outcome:
    sides = [Sides(0.628, 0.5, 0.0) for _ in compared]
    return Outcome({0: sides, 1: sides}, sides, sides, list(compared), UNDECIDED, "")


@pytest.mark.parametrize(
    ("right", "said"),
    [
        ({"experiment": "x"}, "0.128 (0.0540 to 0.202)"),
        (0, "0.128 (0.0540 to 0.202)"),
        (0.5, "0.128 (0.0540 to 0.202) beyond 0.5"),
    ],
)
def test_a_single_comparison_in_short(right: object, said: str) -> None:
    claim = {"parts": [{"relation": ">", "right": right}]}
    assert numbers_of(claim, outcome(Compared(OWN, HOLDS))).in_short == said


def test_several_comparisons_in_short() -> None:
    claim = {"parts": [{"relation": ">", "right": {}}] * 3}
    calls = [Compared(OWN, HOLDS), Compared(OWN, UNDECIDED), Compared(OWN, HOLDS)]
    assert numbers_of(claim, outcome(*calls)).in_short == "2 of 3 comparisons hold"
