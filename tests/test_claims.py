"""Predicates over records."""

from __future__ import annotations

import math
from typing import Any

import pytest

from cory.claims import judge, measure


def claim(relation: str, right: Any, **more: Any) -> dict[str, Any]:
    left = {"experiment": "one", "metric": "m", "at": "final"}
    return {"id": "c", "left": left, "relation": relation, "right": right, **more}


@pytest.mark.parametrize(
    ("asked", "verdict"),
    [
        (claim(">", 1.9), "holds"),
        (claim("<", 1.9), "does not hold (holds in 0 of 1 seeds; the mean does not)"),
        (claim("<", 1.1, factor=2), "holds"),
        (claim("~", 2.1, within={"share": 0.1, "of": 1.5}), "holds"),
        (claim("~", 2.1, within={"share": 0.1, "of": -1.5}), "holds"),
        (
            claim("~", 2.1, within={"share": 0.1, "of": 0.5}),
            "does not hold (holds in 0 of 1 seeds; the mean does not)",
        ),
    ],
)
def test_relations(asked: dict[str, Any], verdict: str) -> None:
    records = {"one": {0: [{"m": value} for value in (0.0, 1.0, 2.0, 2.0)]}}
    assert judge(asked, records, [0], window=2).verdict == verdict


def test_what_is_not_a_number_does_not_hold() -> None:
    records = {"one": {0: [{"m": math.nan}] * 4, 1: [{"m": 1.0}] * 4}}
    outcome = judge(claim(">", 0), records, [0, 1], window=2)
    assert outcome.verdict == "does not hold (holds in 1 of 2 seeds; the mean does not)"


def test_an_unknown_metric_or_relation_is_named() -> None:
    records = {"one": {0: [{"x": 1.0}] * 4}}
    with pytest.raises(ValueError, match="c: one seed 0: m has 0 values"):
        judge(claim(">", 0), records, [0], window=2)
    with pytest.raises(ValueError, match="relation must be one of"):
        judge(claim("=", 0), records, [0], window=2)


def test_measures() -> None:
    lines = [{"m": float(value)} for value in (1, 1, 2, 4, 6, 8)]
    at = {name: measure(lines, "m", name, 2) for name in ("first", "middle", "final", "change")}
    assert at == {"first": 1, "middle": 3, "final": 7, "change": 6}
    assert measure(lines, "m", "last_half_std", 2) == 2
    with pytest.raises(ValueError, match="at=end is unknown"):
        measure(lines, "m", "end", 2)
