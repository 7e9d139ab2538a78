"""Predicates over records."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest

from cory.report.claims.judge import judge
from cory.report.claims.measures import Absent, measure
from cory.report.claims.sides import experiments, metrics
from cory.report.claims.templates import expand


def claim(relation: str, right: Any, **more: Any) -> dict[str, Any]:
    left = {"experiment": "one", "metric": "m", "at": "final"}
    return {"id": "c", "parts": [{"left": left, "relation": relation, "right": right, **more}]}


@pytest.mark.parametrize(
    ("asked", "verdict"),
    [
        (claim(">", 1.9), "holds"),
        (claim("<", 1.9), "contradicted"),
        (claim("<", 1.1, factor=2), "holds"),
        (claim("<=", 2.0), "holds"),
        (claim("<=", 1.9), "contradicted"),
        (claim("~", 2.1, within={"share": 0.1, "of": 1.5}), "holds"),
        (claim("~", 2.1, within={"share": 0.1, "of": -1.5}), "holds"),
        (claim("~", 2.1, within={"share": 0.1, "of": 0.5}), "contradicted"),
    ],
)
def test_relations(asked: dict[str, Any], verdict: str) -> None:
    records = {"one": {0: [{"m": value} for value in (0.0, 1.0, 2.0, 2.0)]}}
    assert judge(asked, records, [0], window=2, exact=True).kind == verdict
    assert judge(asked, records, [0], window=2).kind == "undecided"  # one seed, no error


def test_what_is_not_a_number_decides_nothing() -> None:
    records = {"one": {0: [{"m": math.nan}] * 4, 1: [{"m": 1.0}] * 4, 2: [{"m": 1.1}] * 4}}
    outcome = judge(claim(">", 0), records, [0, 1, 2], window=2)
    assert outcome.kind == "undecided" and outcome.parts[0].interval is None


def test_a_short_series_or_an_unknown_relation_is_named() -> None:
    records = {"one": {0: [{"m": 1.0}]}}
    with pytest.raises(ValueError, match="c: one seed 0: m has 1 values"):
        judge(claim(">", 0), records, [0], window=2)
    with pytest.raises(ValueError, match="relation must be one of"):
        judge(claim("=", 0), records, [0], window=2)


@pytest.mark.parametrize(
    ("finals", "verdict", "why"),
    [
        ({0: 2.0, 1: 2.5, 2: 3.0}, "holds", ""),
        ({0: 9.0, 1: 9.0, 2: -1.0}, "undecided", ""),
        ({0: -2.0, 1: -2.5, 2: -3.0}, "contradicted", ""),
        # a missing seed is never the reason why a claim holds
        ({0: 2.0, 2: 2.1}, "not run", " (1 of 3 seeds)"),
        ({}, "not run", " (3 of 3 seeds)"),
    ],
)
def test_a_claim_is_judged_over_all_its_seeds(
    finals: dict[int, float], verdict: str, why: str
) -> None:
    records = {"one": {seed: [{"m": value}] for seed, value in finals.items()}}
    outcome = judge(claim(">", 0), records, [0, 1, 2], window=1)
    assert (outcome.kind, outcome.why) == (verdict, why)


@pytest.mark.parametrize(
    ("runs", "verdict"),
    [
        ({0: {"m": 1.0}, 1: {}}, "undecided (1 of 2 seeds: one has no m)"),
        ({0: {}, 1: {}}, "undecided (2 of 2 seeds: one has no m)"),
        # a run that is missing is what stands in the way first
        ({0: {}}, "not run (1 of 2 seeds)"),
    ],
)
def test_what_never_occurred_is_undecided(runs: dict[int, dict[str, float]], verdict: str) -> None:
    records = {"one": {seed: [line] for seed, line in runs.items()}}
    outcome = judge(claim(">", 0), records, [0, 1], window=1)
    assert outcome.kind + outcome.why == verdict


def test_measures() -> None:
    lines = [{"m": float(value)} for value in (1, 1, 2, 4, 9, 8, 4, 2)]
    at = {
        "first": 1,  # of two: windows have the means 1, 1.5, 3, 6.5, 8.5, 6, 3
        "tenth": 1,
        "middle": 6.5,
        "final": 3,
        "highest": 8.5,
        "early_highest": 6.5,
        "peak": 4 / 6,
        "change": 2,
        "first_half": 5.5,
        "second_half": -3.5,
        "climb": 7.5,
        "early_climb": 5.5,
        "fall": 5.5,
        "last": 2,
    }
    assert {name: measure(lines, "m", name, 2) for name in at} == pytest.approx(at)
    peaked = [{"m": float(value)} for value in (1, 9, 2, 4, 5, 20)]  # the middle one is the third
    assert [measure(peaked, "m", f"early_{name}", 1) for name in ("highest", "climb")] == [9, 8]
    ten = [{"m": float(value)} for value in range(20)]
    assert measure(ten, "m", "tenth", 3) == 3  # iterations 2, 3, 4
    assert measure([{"m": 7.0}], "m", "last", 10) == 7
    with pytest.raises(ValueError, match="at=end is unknown"):
        measure(lines, "m", "end", 2)


def test_unsteadiness_is_what_the_draw_does_not_explain() -> None:
    """Of eight values the last four count: variance 20 / 3, of which the draw explains 8 / 3."""
    values, errors = (9, -9, 9, -9, 1, 3, 5, 7), (9, 9, 9, 9, 1, 1, 1, math.sqrt(23 / 3))
    lines = [
        {"objective/score/agent_1": value, "objective/score_se/agent_1": error}
        for value, error in zip(values, errors, strict=True)
    ]
    assert measure(lines, "objective/score/agent_1", "unsteadiness", 1) == pytest.approx(2)
    noise = [{**line, "objective/score_se/agent_1": 3.0} for line in lines]
    assert measure(noise, "objective/score/agent_1", "unsteadiness", 1) == 0
    with pytest.raises(Absent, match="no objective/score_std/agent_0"):
        measure(
            [{"objective/score/agent_0": 1.0}] * 4, "objective/score/agent_0", "unsteadiness", 1
        )


def test_a_metric_where_another_first_reaches_a_level() -> None:
    scores, kl = (0.0, 0.4, 0.4, 0.8, 0.2), (1.0, 2.0, 4.0, 8.0, 16.0)
    lines = [{"s": a, "k": b} for a, b in zip(scores, kl, strict=True)]
    read = partial(measure, lines, "k", "reached")
    assert read(1, "s", 0.4) == 2 and read(1, "s", 0.5) == 8 and read(1, "s", -1.0) == 1
    assert read(2, "s", 0.4) == 3  # (0.4 + 0.4) / 2
    assert read(2, "s", 0.5) == 6
    with pytest.raises(Absent, match=r"no s of 0\.9"):
        read(1, "s", 0.9)


def test_a_frontier_dominates_when_every_point_is_met() -> None:
    def run(score: float, kl: float) -> dict[int, list[dict[str, float]]]:
        return {0: [{"objective/score/agent_0": score, "objective/kl/agent_0": kl}]}

    records = {"a": run(1, 1), "b": run(2, 3), "x": run(0.9, 1), "y": run(1.9, 4), "z": run(1.9, 2)}

    def asked(theirs: list[str]) -> dict[str, Any]:
        left = {"agent": "agent_0", "experiments": ["a", "b"]}
        right = {"agent": "agent_0", "experiments": theirs}
        return {"id": "c", "parts": [{"left": left, "relation": "dominates", "right": right}]}

    assert judge(asked(["x", "y"]), records, [0], window=1, exact=True).kind == "holds"
    beaten = judge(asked(["x", "y", "z"]), records, [0], window=1, exact=True)
    assert beaten.kind == "contradicted" and beaten.seeds[0][0].left == 2
    assert beaten.seeds[0][0].frontiers[0] == ((1, 1), (2, 3))
    assert experiments(asked(["x"])) == {"a", "b", "x"}
    assert metrics(asked(["x"])) == {"objective/score/agent_0", "objective/kl/agent_0"}


def test_a_side_may_be_a_difference_of_runs() -> None:
    asked = claim(">", 0.9)
    other = {"experiment": "two", "metric": "n", "at": "last"}
    asked["parts"][0]["left"]["minus"] = other
    records = {"one": {0: [{"m": 3.0}]}, "two": {0: [{"n": 2.0}]}}
    outcome = judge(asked, records, [0], window=1, exact=True)
    assert outcome.kind == "holds" and outcome.seeds[0][0].left == 1.0
    assert experiments(asked) == {"one", "two"} and metrics(asked) == {"m", "n"}
    assert judge(asked, {"one": records["one"]}, [0], window=1).why == " (1 of 1 seeds)"


def test_a_template_hands_on_that_a_claim_is_post_hoc() -> None:
    written = {"id": "c_{n}", "text": "x", "section": "-", "post_hoc": True, "parts": []}
    claims = expand({**written, "each": [{"n": 1}, {"n": 2}]})
    assert [(claim["id"], claim["post_hoc"]) for claim in claims] == [("c_1", True), ("c_2", True)]
