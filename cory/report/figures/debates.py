"""Pictures of debates, from the runs that count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from cory.report.figures.bars import bars_figure
from cory.report.figures.transitions import transitions_figure
from cory.report.figures.turns import Votes, turns_figure
from cory.report.paper import Table
from cory.report.records.collect import Collected
from cory.report.tables.debates import (
    FLOWS,
    POOLED,
    QUALITIES,
    changes_of,
    policies_in,
    spoken,
    turns_in,
)
from cory.report.tables.numbers import estimates, last, runs_of
from cory.report.tables.second_hand import row_name


def turns(table: Table, found: Collected) -> Figure:
    """Votes over turns, a panel per task."""
    tasks: dict[str, dict[str, Votes]] = {}
    for row in _with_runs(table, found):
        runs = runs_of(found, row)
        steps = turns_in(runs, "eval/vote")
        votes = {turn: estimates(runs, "eval/vote", f"turn_{turn}") for turn in steps}
        if votes:
            tasks.setdefault(row.get("panel", ""), {})[row["label"]] = votes
    return turns_figure(tasks)


def transitions(table: Table, found: Collected) -> Figure:
    """Flows between turns; for incentives those of all turns, and what the incentives changed."""
    rows = _with_runs(table, found)
    places = {"all turns": POOLED}
    changes: dict[str, Mapping[str, list[float]]] | None = None
    if "against" in table.entry:
        found_changes = {row_name(row): dict(changes_of(table, found, row)) for row in rows}
        changes = {name: rates for name, rates in found_changes.items() if any(rates.values())}
    else:
        steps = turns_in(found.runs, "eval/flow_rr")
        places = {f"turn {turn - 1} to {turn}": f"turn_{turn}" for turn in steps} or places
    flows = {
        step: {
            row_name(row): {
                flow: last(runs_of(found, row), f"eval/flow_{flow}/{where}") for flow in FLOWS
            }
            for row in rows
        }
        for step, where in places.items()
    }
    return transitions_figure(flows, FLOWS, changes or None)


def alone(table: Table, found: Collected) -> Figure:
    """Every policy alone on the bare question, beside the team's votes."""
    tasks: dict[str, dict[str, dict[str, list[float]]]] = {}
    for row in _with_runs(table, found):
        runs, label = runs_of(found, row), row["label"]
        groups = tasks.setdefault(row.get("panel", ""), {})
        for policy in policies_in(runs):
            own = last(runs, f"eval/pass_at_1/{policy}")
            groups.setdefault(f"alone, {spoken(policy)}", {})[label] = own
    for row in _with_runs(table, found):  # the team's votes stand behind all that is alone
        runs, label = runs_of(found, row), row["label"]
        steps = turns_in(runs, "eval/vote")
        for name, turn in (("first", steps[:1]), ("last", steps[-1:])):
            votes = [value for one in turn for value in last(runs, f"eval/vote/turn_{one}")]
            groups = tasks[row.get("panel", "")]
            groups.setdefault(f"team, {name} turn", {})[label] = votes
    return bars_figure(tasks, "accuracy on held-out questions")


def verifier(table: Table, found: Collected) -> Figure:
    """Accuracies and AUCs, a panel per task."""
    tasks: dict[str, dict[str, dict[str, list[float]]]] = {}
    for row in _with_runs(table, found):
        groups = tasks.setdefault(row.get("panel", ""), {})
        for metric, name in QUALITIES.items():
            groups.setdefault(name, {})[row["label"]] = last(runs_of(found, row), metric)
    return bars_figure(tasks, "accuracy, or area under the curve", guess=0.5)


def _with_runs(table: Table, found: Collected) -> list[dict[str, Any]]:
    """The rows that have something to draw."""
    return [row for row in table.rows if found.counted[row["experiment"]]]
