"""The picture of a table or figure, from the runs that count."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from cory.report.figures import debates as debate_figures
from cory.report.figures import fine_tuning as finetuning_figures
from cory.report.figures import matches as match_figures
from cory.report.figures.curves import agent_label, curves_figure
from cory.report.figures.grid import grid_figure
from cory.report.figures.pareto import Point, pareto_figure
from cory.report.figures.pass_at_k import Rates, pass_at_k_figure
from cory.report.figures.style import note
from cory.report.paper import PAPER_SCALE, Table
from cory.report.records.archive import Archived
from cory.report.records.collect import Collected
from cory.report.tables.numbers import agents_in, at_end, estimates, runs_of
from cory.report.tables.results import COLUMNS, pareto_points, passes

# how to read scores around a circle: a kind's other figure
CIRCLE = "Means over seeds. An axis ends at the largest value on it; the centre is not 0."
# how to read a kind of figure
MARKS = {
    "curves": "Lines: means over seeds. Bands: one standard deviation.",
    "pareto": "Points: means over seeds; filled: on the frontier. Crosses: one standard deviation.",
    "pass_at_k": "Lines: means over seeds. Bands: one standard deviation.",
    "grid": "Means over seeds.",
    "turns": "Lines: means over seeds. Bands: one standard deviation.",
    "transitions": "Bars: means over seeds. Thin lines: one standard deviation.",
    "alone": "Bars: means over seeds. Thin lines: one standard deviation.",
    "verifier": "Bars: means over seeds. Thin lines: one standard deviation. Dashed: what guessing "
    "reaches, except in the first group.",
    "matches": "Means over seeds. Thin lines: one standard deviation; of one seed, its 95 % "
    "interval.",
    "benchmarks": "Bars: means over seeds. Thin lines: one standard deviation. Dashed: nobody is "
    "ahead.",
    "factor": "Lines: means over seeds. Bands: one standard deviation; of one seed, its 95 % "
    "interval.",
    "accuracy": "Bars: means over seeds. Thin lines: one standard deviation.",
    "iterations": "Lines: means over seeds. Bands: one standard deviation; of one seed, its 95 % "
    "interval where one is known.",
    "scatter": "Points: means over seeds. Numbers: fine-tuning iterations.",
}


def draw(table: Table, found: Collected) -> Figure | None:
    """The figure; None where there is nothing to draw."""
    drawing = {
        "curves": _curves,
        "pareto": _pareto,
        "pass_at_k": _pass_at_k,
        "grid": _grid,
        "turns": debate_figures.turns,
        "transitions": debate_figures.transitions,
        "alone": debate_figures.alone,
        "verifier": debate_figures.verifier,
        "matches": match_figures.matches,
        "benchmarks": match_figures.benchmarks,
        "factor": match_figures.factor,
        "accuracy": finetuning_figures.accuracies,
        "iterations": finetuning_figures.iterations,
        "scatter": finetuning_figures.scatter,
    }
    if table.kind not in drawing or not found.runs:
        return None
    figure = drawing[table.kind](table, found)
    if figure is not None:
        circle = table.kind == "benchmarks" and table.scale == PAPER_SCALE
        reading = CIRCLE if circle else MARKS[table.kind]
        note(figure, "\n".join(filter(None, [scale_note(table), reading])))
    return figure


def scale_note(table: Table) -> str:
    """What a picture of a small run must say also where it is copied to another place."""
    if table.scale == PAPER_SCALE:
        return ""
    return f"{table.scale.capitalize()} scale, not the paper's models and data."


def _curves(table: Table, found: Collected) -> Figure:
    groups = {row["label"]: runs_of(found, row) for row in table.rows}
    runs = {label: [run.lines for run in own] for label, own in groups.items() if own}
    if table.entry.get("x", "iterations") == "iterations":
        return curves_figure(runs)
    return curves_figure(runs, {label: responses_of(groups[label][0]) for label in runs})


def responses_of(run: Archived) -> int:
    """Responses that one iteration takes, of all agents together."""
    algorithm = run.settings["algorithm"]
    return int(algorithm["prompts_per_iteration"]) * int(algorithm.get("agents", 1))


def _pareto(table: Table, found: Collected) -> Figure:
    return pareto_figure(
        {
            label: [Point(*point) for point in points]
            for label, points in pareto_points(table, found).items()
        }
    )


def _pass_at_k(table: Table, found: Collected) -> Figure | None:
    kinds = {
        "eval/any_of_": "one of k responses right",
        "eval/pass_at_": "pass@k (unbiased estimate)",
    }
    drawn: dict[str, Mapping[str, Rates]] = {}
    for prefix, name in kinds.items():
        methods: dict[str, Rates] = {}
        for row in table.rows:
            runs = runs_of(found, row)
            agents = agents_in(runs)
            for who in [*agents, "team"]:
                ks = sorted({k for run in runs for k, own in passes(run, prefix) if own == who})
                if ks:
                    team = who == "team"
                    label = f"{row['label']}, team" if team else agent_label(
                        row["label"], who, agents
                    )  # fmt: skip
                    methods[label] = {k: estimates(runs, f"{prefix}{k}", who) for k in ks}
        if methods:
            drawn[name] = methods
    return pass_at_k_figure(drawn) if drawn else None


def _grid(table: Table, found: Collected) -> Figure:
    cells = {(row["lr"], row["eta"]): runs_of(found, row) for row in table.rows}
    kinds = {
        name: {
            place: float(np.mean(at_end(runs, f"{metric}/agent_0", table.window)))
            for place, runs in cells.items()
            if runs
        }
        for metric, name in COLUMNS.items()
    }
    rows = list(dict.fromkeys(row["lr"] for row in table.rows))
    columns = list(dict.fromkeys(row["eta"] for row in table.rows))
    return grid_figure(rows, columns, kinds)
