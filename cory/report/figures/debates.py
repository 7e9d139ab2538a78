"""Pictures of debates: votes over turns, changed answers, agents alone, verifiers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from cory.report.figures.bars import Bar, BarPanel, bars_figure
from cory.report.figures.lines import Curve, estimated_curve, per_panel, printed_points
from cory.report.figures.palette import places
from cory.report.figures.rows import Tasks, by_group, by_method, with_runs
from cory.report.figures.style import COLOURS, Panel, figure_of
from cory.report.paper import Table
from cory.report.records.archive import Archived
from cory.report.records.collect import CountedRuns
from cory.report.tables.debates import (
    FLOWS,
    POOLED,
    QUALITIES,
    changes_of,
    policies_in,
    policy_words,
)
from cory.report.tables.numbers import PaperRow, estimates, last, turns_in
from cory.report.tables.second_hand import row_name

Shares = Mapping[str, Sequence[float]]  # flow or rate -> a share per seed
# flow -> colour: answers that end right are blue, wrong ones orange; those that change are dark
SHADES = {"rr": "#9CCAE6", "wr": "#0072B2", "rw": "#B34700", "ww": "#F3C7A5"}
Printed = Mapping[str, Mapping[str, Mapping[int, float]]]
BESIDE = 0.035  # of a step, between the bars of two methods
ROW = 0.42  # inches of a bar
WRITTEN = 0.07  # shares from here on are written into their bars


def draw_turns(table: Table, found: CountedRuns) -> Figure:
    """Votes over turns, a panel per task."""

    def votes(row: PaperRow, runs: list[Archived]) -> dict[int, Any]:
        steps = turns_in(runs, "eval/vote")
        return {turn: estimates(runs, "eval/vote", f"turn_{turn}") for turn in steps}

    axes = "turn of the debate", "accuracy of the majority vote"
    known: dict[str, dict[str, dict[int, float]]] = {}
    for row, _ in with_runs(table, found):
        turns = {
            int(key.removeprefix("turn_")): float(value)
            for key, value in row.get("second_hand", {}).items()
            if key.startswith("turn_")
        }
        known.setdefault(row.get("panel", ""), {})[row["label"]] = turns
    return over_steps(by_method(table, found, votes), *axes, share=True, printed=known)


def over_steps(tasks: Tasks, x: str, y: str, share: bool, printed: Printed | None = None) -> Figure:
    """A number over turns of a debate (Park et al., fig. 2) or over fine-tuning iterations.

    tasks: title of a panel -> method -> step -> the values of the seeds
    share: whether the numbers are shares, shown as per cent
    printed: title of a panel -> method -> step -> what the paper prints
    """

    names = list(dict.fromkeys(name for methods in tasks.values() for name in methods))

    def curves(name: str, points: Any, number: int) -> list[Curve]:
        aside = BESIDE * (names.index(name) - (len(names) - 1) / 2)  # so that bars stand apart
        moved = {step + aside: values for step, values in points.items()}
        return [estimated_curve(name, moved, number, look={"markersize": 6}, band=0.0)]

    panels = []
    for panel in per_panel(tasks, curves, x, y, percent=0 if share else None, margins=(0.08, 0.05)):
        every = sorted({step for points in tasks[panel.title].values() for step in points})
        known = (printed or {}).get(panel.title, {})
        marks = [
            printed_points(near, place)
            for name, place in places(names).items()
            if (near := _near(known.get(name, {}), tasks[panel.title]))
        ]
        ticks = {step: str(step) for step in every}
        panels.append(replace(panel, curves=[*panel.curves, *marks], ticks=ticks))
    return figure_of(panels, width=max(4.4, 5.6 / len(tasks)), height=4.6, direct=True)


def _near(printed: Mapping[int, float], drawn: Mapping[str, Mapping[int, Any]]) -> dict[int, float]:
    """Printed numbers within one height of what is drawn: a far one would press all else flat."""
    values = [value for points in drawn.values() for own in points.values() for value, *_ in own]
    low, high = min(values), max(values)
    span = high - low
    return {step: value for step, value in printed.items() if low - span <= value <= high + span}


def draw_transitions(table: Table, found: CountedRuns) -> Figure:
    """How right and wrong answers change over a debate (Park et al., figs. 3 and 4).

    For incentives those of all turns, and what the incentives changed.
    """
    rows = list(with_runs(table, found))
    places, changes = {"all turns": POOLED}, {}
    if table.against is not None:
        every = {row_name(row): changes_of(table, found, row) for row, _ in rows}
        changes = {name: rates for name, rates in every.items() if any(rates.values())}
    else:
        steps = turns_in(found.runs, "eval/flow_rr")
        places = {f"turn {turn - 1} to {turn}": f"turn_{turn}" for turn in steps} or places
    panels: list[Panel] = []
    for step, where in places.items():
        flows = {
            row_name(row): {flow: last(runs, f"eval/flow_{flow}/{where}") for flow in FLOWS}
            for row, runs in rows
        }
        panels.append(stacked(step, flows, named=not panels))
    most = len(rows)
    if changes:
        panels.append(changed(changes))
        most = max(most, 2 * len(changes))  # two bars each
    width = max(5.0, 8.0 / len(panels))
    return figure_of(panels, width=width, height=1.9 + ROW * most)


def stacked(title: str, flows: Mapping[str, Shares], named: bool) -> BarPanel:
    """One bar per method, the first on top, made of its flows."""
    bars = []
    for place, shares in enumerate(flows.values()):
        left = 0.0
        for flow, name in FLOWS.items():
            if not shares.get(flow):
                continue
            share = float(np.mean(shares[flow]))
            text = f"{100 * share:.0f}" if share >= WRITTEN else ""
            ink = "white" if flow in ("wr", "rw") else "black"
            bars.append(
                Bar(name, place, shares[flow], SHADES[flow], 0.72, left, False, text=text, ink=ink)
            )
            left += share
    return BarPanel(
        bars, list(flows), "share of single answers", title, horizontal=True, limits=(0, 1),
        grid=False, named=named,
    )  # fmt: skip


def changed(changes: Mapping[str, Shares]) -> BarPanel:
    """Two bars per method: the change of the rate that is paid for, and of the one charged for."""
    kinds = {"wrong → right, paid": COLOURS[2], "right → wrong, charged": COLOURS[3]}
    bars = [
        Bar(kind, place + 0.4 * number - 0.2, values, kinds[kind], 0.36)
        for place, rates in enumerate(changes.values())
        for number, (kind, values) in enumerate(zip(kinds, rates.values(), strict=True))
        if values
    ]
    return BarPanel(
        bars, list(changes), "change against no incentives (points)",
        "rates that the incentive is about", horizontal=True, line=0, dashed=False, symbol="",
    )  # fmt: skip


def draw_alone(table: Table, found: CountedRuns) -> Figure:
    """Every policy alone on the bare question, beside the team's votes."""

    def policies(row: PaperRow, runs: list[Archived]) -> dict[str, list[float]]:
        return {
            f"alone, {policy_words(policy)}": last(runs, f"eval/pass_at_1/{policy}")
            for policy in policies_in(runs)
        }

    def team(row: PaperRow, runs: list[Archived]) -> dict[str, list[float]]:
        steps = turns_in(runs, "eval/vote")
        ends = {"first": steps[:1], "last": steps[-1:]}
        return {
            f"team, {name} turn": [v for turn in own for v in last(runs, f"eval/vote/turn_{turn}")]
            for name, own in ends.items()
        }

    tasks = by_group(table, found, policies, team)
    return bars_figure(tasks, "accuracy on held-out questions")


def draw_verifier(table: Table, found: CountedRuns) -> Figure:
    """Accuracies and AUCs, a panel per task."""

    def qualities(row: PaperRow, runs: list[Archived]) -> dict[str, list[float]]:
        return {name: last(runs, metric) for metric, name in QUALITIES.items()}

    tasks = by_group(table, found, qualities)
    return bars_figure(tasks, "accuracy, or area under the curve", guess=0.5)
