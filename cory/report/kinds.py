"""Every kind of table, in one place: its numbers, its picture, and what its entry must have.

To add a kind: write its results below tables/, its picture below figures/, and register both here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from cory.report.claims.judge import Lines
from cory.report.figures import debates as debate_figures
from cory.report.figures import fine_tuning as fine_tuning_figures
from cory.report.figures import games as game_figures
from cory.report.figures import toys
from cory.report.figures import training as training_figures
from cory.report.figures.style import note
from cory.report.paper import PAPER_SCALE, Table
from cory.report.records.collect import Collected
from cory.report.tables import (
    accuracies,
    debates,
    fine_tuning,
    game,
    games,
    probes,
    second_hand,
    skills,
    training,
)

LINES = "Lines: means over seeds. Bands: one standard deviation."
BARS = "Bars: means over seeds. Thin lines: one standard deviation."
CIRCLE = "Means over seeds. An axis ends at the largest value on it; the centre is not 0."


@dataclass(frozen=True)
class Kind:
    """Of tables with runs."""

    results: Callable[[Table, Collected], list[str]]
    figure: Callable[[Table, Collected], Figure | None] | None
    reading: str = ""  # how to read the figure
    averages: bool = False  # its numbers are means over a window, else the last evaluation's
    long: bool = False  # long texts, which the overviews leave to their pages
    printed: Callable[[Table], list[str]] = second_hand.block  # what is known without runs
    needs: tuple[str, ...] = ()  # parts that its entries must have


@dataclass(frozen=True)
class Computed:
    """Of tables for which nothing is run: every number is computed when the page is written."""

    records: Callable[[Mapping[str, Any]], dict[str, Lines]]  # what claims compare
    metrics: tuple[str, ...]
    results: Callable[[Table], list[str]]
    sections: Callable[[Table], list[str]]  # what else its page has
    figure: Callable[[Table], Figure]
    reading: str
    about_claims: str
    spoken: str  # in README
    more: str  # in the overview, of the page


KINDS = {
    "curves": Kind(training.curves, training_figures.curves, LINES, averages=True),
    "pareto": Kind(
        training.pareto,
        training_figures.pareto,
        "Points: means over seeds; filled: on the frontier. Crosses: one standard deviation.",
        averages=True,
    ),
    "pass_at_k": Kind(training.pass_at_k, training_figures.pass_at_k, LINES, averages=True),
    "grid": Kind(training.grid, training_figures.grid, "Means over seeds.", averages=True),
    "examples": Kind(probes.examples, None, averages=True, long=True),
    "turns": Kind(debates.turns, debate_figures.turns, LINES),
    "transitions": Kind(debates.transitions, debate_figures.transitions, BARS),
    "alone": Kind(debates.alone, debate_figures.alone, BARS),
    "verifier": Kind(
        debates.verifier,
        debate_figures.verifier,
        f"{BARS} Dashed: what guessing reaches, except in the first group.",
    ),
    "matches": Kind(
        games.matches,
        game_figures.matches,
        "Means over seeds. Thin lines: one standard deviation; of one seed, its 95 % interval.",
        needs=("shows",),
    ),
    "benchmarks": Kind(
        games.benchmarks, game_figures.benchmarks, f"{BARS} Dashed: nobody is ahead."
    ),
    "factor": Kind(
        games.factor,
        game_figures.factor,
        f"{LINES[:-1]}; of one seed, its 95 % interval.",
        needs=("factor",),
    ),
    "dialogues": Kind(probes.dialogues, None, long=True),
    "accuracy": Kind(
        accuracies.accuracies,
        fine_tuning_figures.accuracies,
        BARS,
        printed=accuracies.printed_accuracies,
        needs=("columns", "problems"),
    ),
    "iterations": Kind(
        fine_tuning.iterations,
        fine_tuning_figures.iterations,
        f"{LINES[:-1]}; of one seed, its 95 % interval where one is known.",
        printed=fine_tuning.printed_curves,
        needs=("axis",),
    ),
    "scatter": Kind(
        fine_tuning.scatter,
        fine_tuning_figures.scatter,
        "Points: means over seeds. Numbers: fine-tuning iterations.",
        needs=("axis",),
    ),
}
COMPUTED = {
    "game": Computed(
        game.records,
        game.METRICS,
        game.results,
        game.sections,
        toys.game,
        "Computed exactly by backward induction; nothing is trained.",
        "Nothing depends on a seed. Factors are ours wherever the paper gives none.",
        "toy game",
        "Rules, other games, observations",
    ),
    "skills": Computed(
        skills.records,
        skills.METRICS,
        skills.results,
        skills.sections,
        toys.skills,
        "Computed from eq. 2; nothing is trained. First skills differ by chance.",
        "Nothing depends on a seed but the drawn skills. Margins are ours wherever the paper gives "
        "none.",
        "skill model",
        "The model's settings",
    ),
}
PRESET = "preset"  # a printed table of settings beside conf/: nothing to run, nothing to draw
NAMES = (*KINDS, PRESET, *COMPUTED)


def draw(table: Table, found: Collected) -> Figure | None:
    """The figure of a table; None where there is nothing to draw."""
    if table.kind in COMPUTED:
        figure = COMPUTED[table.kind].figure(table)
        note(figure, COMPUTED[table.kind].reading)
        return figure
    kind = KINDS[table.kind]
    if kind.figure is None or not found.runs:
        return None
    drawn = kind.figure(table, found)
    if drawn is not None:
        circle = table.kind == "benchmarks" and table.scale == PAPER_SCALE
        reading = CIRCLE if circle else kind.reading
        note(drawn, "\n".join(filter(None, [_of_scale(table), reading])))
    return drawn


def _of_scale(table: Table) -> str:
    """What a picture of a small run must say also where it is copied to another place."""
    if table.scale == PAPER_SCALE:
        return ""
    return f"{table.scale.capitalize()} scale, not the paper's models and data."
