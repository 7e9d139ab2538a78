"""Layouts of pages about reasoning benchmarks, and about one factor that was varied.

Benchmarks are run on agents of the paper's scale only. At any other scale the same pages show win
rates: against the `opponent` of `by_scale`, called `player` in words, and against itself.

conf/paper/: an entry of kind `factor` says under `factor` what was varied: its `name`, the `keys`
of the settings whose product it is, and whether its axis is logarithmic (`log`).
"""

from __future__ import annotations

import math

from omegaconf import OmegaConf

from cory.config import GEOMETRIC_MEAN
from cory.report.paper import PAPER_SCALE, Table
from cory.report.records.archive import Archived
from cory.report.records.benchmarks import COLUMNS, COT, metric_of
from cory.report.records.collect import Collected
from cory.report.tables import second_hand
from cory.report.tables.markdown import NONE, markdown, percent
from cory.report.tables.matches import INVALID, ITSELF, KNOWS, SEEKS, in_role, rates
from cory.report.tables.numbers import head_of, last, names_of, runs_of, seeds_text

NOT_IN_OUR_SOURCE = "The paper's own numbers are not printed in our source."


def benchmarks(table: Table, found: Collected) -> list[str]:
    """Scores on every benchmark, or win rates at a scale that has none."""
    return _scores(table, found) if table.scale == PAPER_SCALE else _win_rates(table, found)


def _scores(table: Table, found: Collected) -> list[str]:
    asked = [name for name in COT if last(found.runs, metric_of(name))]
    columns = COLUMNS | {name: COT[name] for name in asked}
    rows = []
    for row in table.rows:
        runs = runs_of(found, row)
        scores = [percent(last(runs, metric_of(name))) for name in columns]
        seeds = seeds_text(table, found, row["experiment"])
        rows.append([*names_of(row), *scores, *second_hand.cells(table, row), seeds])
    return [
        "Mean ± sample standard deviation over seeds. BBH: exact matches of generated answers, "
        "with 3 examples; MMLU with 5; the others without. GM: the geometric mean of the eight. "
        f"{NOT_IN_OUR_SOURCE}",
        *second_hand.meaning(table),
        markdown(
            [*head_of(table), *columns.values(), *second_hand.columns(table), "seeds"],
            rows,
        ),
        *second_hand.largest(table),
    ]


def _win_rates(table: Table, found: Collected) -> list[str]:
    together = ["itself, word found"] if in_role(found.runs, ("guesser",), ITSELF) else []
    rows = []
    for row in table.rows:
        runs = runs_of(found, row)
        own = [percent(in_role(runs, roles, ITSELF)) for roles in (KNOWS, SEEKS)]
        asking = [run for run in runs if in_role([run], ("guesser",), ITSELF)]
        own += [percent(last(asking, f"eval/solved/{ITSELF}")) for _ in together]
        seeds = seeds_text(table, found, row["experiment"])
        rows.append([*names_of(row), *rates(runs, table.words["opponent"]), *own, seeds])
    player = table.words["player"]
    return [
        WITHOUT_BENCHMARKS,
        "Win rate: wins and half the ties over all valid games; in Taboo the attacker knows the "
        "word, in the other games, which both win or neither, the oracle does. Mean ± sample "
        f"standard deviation over seeds. {INVALID}",
        markdown(
            [
                *(*head_of(table), f"against {player}", "... knowing the word"),
                *("... looking for it", "itself, knowing", "itself, looking", *together, "seeds"),
            ],
            rows,
        ),
    ]


WITHOUT_BENCHMARKS = (
    "Benchmarks are not run at this scale: its models are below all of them. Win rates stand in."
)


def factor(table: Table, found: Collected) -> list[str]:
    """The geometric mean, or the win rate, at every value of the factor."""
    own = table.scale == PAPER_SCALE
    rows = []
    for row in table.rows:
        runs = runs_of(found, row)
        scores = (
            [percent(last(runs, metric_of(name))) for name in (GEOMETRIC_MEAN, "mmlu")]
            if own
            else rates(runs, table.words["opponent"])
        )
        seeds = seeds_text(table, found, row["experiment"])
        rows.append([row["label"], _value(table, runs), *scores, seeds])
    name = str(table.entry["factor"]["name"])
    columns = (
        ["GM", "MMLU"]
        if own
        else [f"win rate against {table.words['player']}", "as attacker", "as defender"]
    )
    said = (
        f"GM: the geometric mean over eight benchmarks. {NOT_IN_OUR_SOURCE}"
        if own
        else f"{WITHOUT_BENCHMARKS} {INVALID}"
    )
    return [
        f"{said} Mean ± sample standard deviation over seeds.",
        markdown(["paper's value", name, *columns, "seeds"], rows),
    ]


def value_of(table: Table, run: Archived) -> float:
    """The factor's value in a run's settings."""
    settings = OmegaConf.create(run.settings)
    keys = table.entry["factor"]["keys"]
    return math.prod(float(OmegaConf.select(settings, key)) for key in keys)


def _value(table: Table, runs: list[Archived]) -> str:
    return f"{value_of(table, runs[0]):g}" if runs else NONE
