"""Every kind of table, in one place: its numbers, its picture, and what its entry must have.

To add a kind: write its results below tables/, its picture below figures/, and register both here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from cory.report.claims.measures import Lines
from cory.report.figures import debates as draw_debates
from cory.report.figures import fine_tuning as draw_fine_tuning
from cory.report.figures import games as draw_games
from cory.report.figures import toys
from cory.report.figures import training as draw_training
from cory.report.figures.style import headline
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

CURVES = (
    "Thin: means over seeds. Thick: their centred running mean, whose end is the number in the "
    "table. Bars behind the end: one standard deviation over seeds."
)
LINES = "Points: means over seeds. Upright bars: one standard deviation."
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
    "curves": Kind(training.curves_results, draw_training.draw_runs, CURVES, averages=True),
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
        headline(figure, table.title, [COMPUTED[table.kind].reading])
        return figure
    kind = TABLE_KINDS[table.kind]
    if kind.figure is None or not found.runs:
        return None
    drawn = kind.figure(table, found)
    if drawn is not None:
        reading = kind.reading
        if table.kind == "benchmarks" and table.scale == PAPER_SCALE:
            reading = CIRCLE
        elif table.kind == "benchmarks" and games.both_always_win(found.runs):
            reading = BARS
        notes = [_of_scale(table), _sizes(table, found), reading, _about_paper(table, drawn)]
        headline(drawn, table.title, list(filter(None, notes)))
    return drawn


def _sizes(table: Table, found: CountedRuns) -> str:
    """`n = 3 seeds; 200 held-out prompts`: how much is behind each number."""
    seeds = sorted({len(own) for own in found.counted.values() if own})
    parts = [f"n = {_span(seeds)} seed{'s' if seeds[-1] > 1 else ''}"]
    settings = [run.settings for run in found.runs]
    if table.averages and table.kind != "pass_at_k":
        drawn = {_prompts(one["algorithm"]) for one in settings}
        parts.append(f"{_span(sorted(drawn))} prompts an iteration")
    else:
        whole = table.about.get("test_problems", {})
        asked = [
            prompts_asked(one["evaluation"]["prompts"], one["task"], whole) for one in settings
        ]
        known = [prompts for prompts in asked if prompts is not None]
        if len(known) == len(settings):  # else a whole split, of unknown size
            parts.append(_evaluated(table, sorted(known), settings))
    return "; ".join(parts) + "."


def prompts_asked(
    limit: int | None, task: Mapping[str, Any], test_problems: Mapping[str, Any]
) -> int | None:
    """Prompts of an evaluation by stored settings; None where nobody knows how many there are.

    limit: `evaluation.prompts`
    test_problems: of `conf/paper/`: how many problems a whole test split has
    """
    own = task.get("pick_test") or task.get("test_problems")
    prompts = limit or own or test_problems.get(task["name"])
    return None if prompts is None else int(prompts)


def _prompts(algorithm: Mapping[str, Any]) -> int:
    """Different prompts of an iteration: `prompts_per_iteration` counts each repetition."""
    repeated = int(algorithm.get("samples_per_prompt") or 1)
    return int(algorithm["prompts_per_iteration"]) // repeated


def _evaluated(table: Table, asked: Sequence[int], settings: Sequence[Mapping[str, Any]]) -> str:
    """`200 held-out prompts, 4 responses each`: what the evaluations ask.

    asked: their prompts, from the fewest on
    """
    samples = _span(sorted({int(one["evaluation"]["samples"]) for one in settings}))
    games = table.kind in ("matches", "benchmarks", "factor")
    what = "words" if games else "held-out prompts"
    times = f", {samples} {'games' if games else 'responses'} each" if samples != "1" else ""
    return f"{_span(asked)} {what}{times}"


def _span(numbers: Sequence[int]) -> str:
    return " to ".join(str(number) for number in dict.fromkeys((numbers[0], numbers[-1])))


def _about_paper(table: Table, figure: Figure) -> str:
    """What the stars are, or that the paper prints no number; and whom agents are in the paper."""
    lines = [line for axes in figure.axes for line in axes.get_lines()]
    stars = any(line.get_marker() == "*" for line in lines)
    known = {
        str(row["label"]): second_hand.second_hand_text(row)
        for row in table.rows
        if "second_hand" in row
    }
    words = [
        f"{row['label']} {row['printed']}"
        for row in table.rows
        if isinstance(row.get("printed"), str)
    ]
    said = "The paper prints no numbers for it." if table.in_paper else ""
    if stars and known:
        said = "Stars: the paper's, known second-hand, of its models and data; far ones left out."
    elif stars:
        said = "Stars: printed in the paper, of its models and data; far ones left out."
    elif known and table.scale == PAPER_SCALE:
        said = f"Of the paper, second-hand: {'; '.join(map(' '.join, known.items()))}."
    elif words:
        said = f"Printed in the paper: {'; '.join(words)}."
    texts = [line.get_label() for line in lines] + [
        text.get_text() for axes in figure.axes for text in axes.texts
    ]
    agents = any(" agent 1" in str(text) for text in texts)
    who = "Agent 0 starts as pioneer (LLM1 in the paper), agent 1 as observer (LLM2)."
    return " ".join(filter(None, [said, who if agents else ""]))


def _of_scale(table: Table) -> str:
    """What a picture of a small run must say also where it is copied to another place."""
    if table.scale == PAPER_SCALE:
        return ""
    return f"{table.scale.capitalize()} scale, not the paper's models and data."
