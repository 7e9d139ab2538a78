"""Every kind of table, in one place: its numbers, its picture, and what its entry must have.

To add a kind: write its results below tables/, its picture below figures/, and register both here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from cory.report.claims.judge import Lines
from cory.report.figures import debates as draw_debates
from cory.report.figures import fine_tuning as draw_fine_tuning
from cory.report.figures import games as draw_games
from cory.report.figures import toys
from cory.report.figures import training as draw_training
from cory.report.figures.style import note
from cory.report.paper import PAPER_SCALE, Table
from cory.report.records.collect import CountedRuns
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
POINTS = "Points: means over seeds; filled: on the frontier. Crosses: one standard deviation."
MEANS = "Means over seeds."
CIRCLE = f"{MEANS} An axis ends at the largest value on it; the centre is not 0."
OF_ONE = "of one seed, its 95 % interval"


@dataclass(frozen=True)
class Kind:
    """Of tables with runs."""

    results: Callable[[Table, CountedRuns], list[str]]
    figure: Callable[[Table, CountedRuns], Figure | None] | None
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


TABLE_KINDS = {
    "curves": Kind(training.curves_results, draw_training.draw_runs, LINES, averages=True),
    "pareto": Kind(training.pareto_results, draw_training.draw_pareto, POINTS, averages=True),
    "pass_at_k": Kind(
        training.pass_at_k_results, draw_training.draw_pass_at_k, LINES, averages=True
    ),
    "grid": Kind(training.grid_results, draw_training.draw_grid, MEANS, averages=True),
    "examples": Kind(probes.examples_results, None, averages=True, long=True),
    "turns": Kind(debates.turns_results, draw_debates.draw_turns, LINES),
    "transitions": Kind(debates.transitions_results, draw_debates.draw_transitions, BARS),
    "alone": Kind(debates.alone_results, draw_debates.draw_alone, BARS),
    "verifier": Kind(
        debates.verifier_results,
        draw_debates.draw_verifier,
        f"{BARS} Dashed: what guessing reaches, except in the first group.",
    ),
    "matches": Kind(
        games.matches_results,
        draw_games.draw_matches,
        f"{MEANS} Thin lines: one standard deviation; {OF_ONE}.",
        needs=("shows",),
    ),
    "benchmarks": Kind(
        games.benchmarks_results, draw_games.draw_benchmarks, f"{BARS} Dashed: nobody is ahead."
    ),
    "factor": Kind(
        games.factor_results, draw_games.draw_factor, f"{LINES[:-1]}; {OF_ONE}.", needs=("factor",)
    ),
    "dialogues": Kind(probes.dialogues_results, None, long=True),
    "accuracy": Kind(
        accuracies.accuracies_results,
        draw_fine_tuning.draw_accuracies,
        BARS,
        printed=accuracies.printed_accuracies,
        needs=("columns", "problems"),
    ),
    "iterations": Kind(
        fine_tuning.iterations_results,
        draw_fine_tuning.draw_iterations,
        f"{LINES[:-1]}; {OF_ONE} where one is known.",
        printed=fine_tuning.printed_curves,
        needs=("axis",),
    ),
    "scatter": Kind(
        fine_tuning.scatter_results,
        draw_fine_tuning.draw_scatter,
        "Points: means over seeds. Numbers: fine-tuning iterations.",
        needs=("axis",),
    ),
}
COMPUTED = {
    "game": Computed(
        game.game_records,
        game.GAME_METRICS,
        game.game_results,
        game.game_sections,
        toys.draw_game,
        "Computed exactly by backward induction; nothing is trained.",
        "Nothing depends on a seed. Factors are ours wherever the paper gives none.",
        "toy game",
        "Rules, other games, observations",
    ),
    "skills": Computed(
        skills.skills_records,
        skills.SKILLS_METRICS,
        skills.skills_results,
        skills.skills_sections,
        toys.draw_skills,
        "Computed from eq. 2; nothing is trained. First skills differ by chance.",
        "Nothing depends on a seed but the drawn skills. Margins are ours wherever the paper gives "
        "none.",
        "skill model",
        "The model's settings",
    ),
}
PRESET = "preset"  # a printed table of settings beside conf/: nothing to run, nothing to draw
KIND_NAMES = (*TABLE_KINDS, PRESET, *COMPUTED)


def draw(table: Table, found: CountedRuns) -> Figure | None:
    """The figure of a table; None where there is nothing to draw."""
    if table.kind in COMPUTED:
        figure = COMPUTED[table.kind].figure(table)
        note(figure, COMPUTED[table.kind].reading)
        return figure
    kind = TABLE_KINDS[table.kind]
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
