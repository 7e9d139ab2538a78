"""The one renderer of tables, by cases, and the registry of kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cory.report.checks import load_table
from cory.report.kinds import COMPUTED, TABLE_KINDS
from cory.report.records.archive import Archived
from cory.report.records.collect import CountedRuns
from cory.report.tables.numbers import intervals, last, turns_in
from cory.report.tables.table import (
    Column,
    TableLine,
    lines,
    number,
    over_agents,
    render,
    share,
    trained,
)
from tests.support.composing import CONF
from tests.support.made_up_debates import one_table, page_of
from tests.support.made_up_runs import WriteRun, lines_of
from tests.support.reporting import row

TABLE = load_table(CONF, "cory", "fig3", "small")
TWO = {"objective/score/agent_0": "x", "objective/score/agent_1": "x"}


def archived(*logged: dict[str, Any], experiment: str = "e", seed: int = 0) -> Archived:
    """A run with these lines."""
    numbered = [{"iteration": place} | line for place, line in enumerate(logged)]
    record = {"iterations": len(logged)}
    return Archived(experiment, seed, "small", "paper", record, None, [], {}, numbered, [])


@pytest.mark.parametrize(
    ("column", "values", "cell"),
    [
        (share("h", "m"), [0.4, 0.6], "50.0 ± 14.1 %"),  # the sample's deviation (n - 1)
        (share("h", "m"), [0.4], "40.0 %"),
        (share("h", "m"), [], "-"),
        (number("h", "m"), [1.0, 2.0], "1.50 ± 0.71"),
        (number("h", "m"), [], "-"),
        (share("h", "{who}"), [0.25], "25.0 %"),  # a word of the line
        (share("h", "absent", "m"), [0.25], "25.0 %"),  # whichever metric a run has
        (Column("h", text=lambda line: line.row["label"]), [0.4], "own"),
    ],
)
def test_a_column_writes_the_values_of_the_seeds(
    column: Column, values: list[float], cell: str
) -> None:
    runs = [archived({"m": 9.0}, {"m": value}) for value in values]
    line = TableLine(["name"], {"label": "own"}, runs, {"who": "m"})
    assert render(["head"], [line], [column]).splitlines() == [
        "| head | h |",
        "| --- | --- |",
        f"| name | {cell} |",
    ]


def test_a_cell_over_fewer_seeds_than_its_line_says_over_how_many() -> None:
    runs = [archived({"m": 0.4}), archived({"other": 1.0}), archived({"m": 0.6})]
    line = TableLine([], {}, runs)
    assert share("h", "m").cell(line) == "50.0 ± 14.1 % (n = 2)"
    assert number("h", "other").cell(line) == "1.00 (n = 1)"
    assert number("h", "m", "other").cell(line) == "0.67 ± 0.31"  # every seed has one of them
    assert number("h", "absent").cell(line) == "-"


def test_numbers_of_training_are_means_over_the_last_window() -> None:
    (column,) = trained({"m": "h"}, TABLE, "agent_0")
    logged = [{"m/agent_0": float(n < 30)} for n in range(40)]
    line = TableLine([], {}, [archived(*logged)])
    assert (column.head, column.cell(line)) == ("h", "0.00")  # of iterations 30 to 39
    assert column.cell(TableLine([], {}, [])) == "-"


def test_a_row_has_a_line_for_each_agent() -> None:
    rows = [{"label": name, "experiment": name} for name in ("two", "one", "none")]
    one = archived({"objective/score/agent_0": 1.0}, experiment="one")
    two = archived({name: 1.0 for name in reversed(TWO)}, experiment="two")
    found = CountedRuns({"two": {0: two}, "one": {0: one}, "none": {}})
    body = lines(rows, found, over_agents)
    assert [(line.names, line.words["agent"]) for line in body] == [
        (["two LLM1"], "agent_0"),
        (["two LLM2"], "agent_1"),
        (["one"], "agent_0"),
        (["none"], ""),
    ]
    assert [line.runs for line in body] == [[two], [two], [one], []]


def test_values_come_in_the_order_of_seeds() -> None:
    runs = {seed: archived({"m": float(seed)}, seed=seed) for seed in (2, 0, 1)}
    found = CountedRuns({"e": runs})
    (line,) = lines([{"label": "l", "experiment": "e"}], found)
    assert last(line.runs, "m") == [0.0, 1.0, 2.0]


def test_turns_are_counted_as_numbers() -> None:
    assert turns_in([archived({f"v/turn_{turn}": 0.5 for turn in (10, 2)})], "v") == [2, 10]


def test_an_interval_is_of_two_standard_errors() -> None:
    runs = [archived({"m/x": 0.5, "m_se/x": 0.1}), archived({"m/x": 0.5})]
    ((_, low, high), exact) = intervals(runs, "m", "x")
    assert (low, high) == pytest.approx((0.5 - 0.1959964, 0.5 + 0.1959964))
    assert exact == (0.5, 0.5, 0.5)


@pytest.mark.slow
def test_a_frontier_page(write_run: WriteRun, tmp_path: Path) -> None:
    rows = [
        {"label": "PPO", "eta": eta, "experiment": f"cory/{name}"}
        for eta, name in {"1e-5": "gsm8k_ppo_eta1e-5", "1e-4": "gsm8k_ppo_eta1e-4"}.items()
    ]
    places = one_table(tmp_path, {"kind": "pareto", "rows": rows})
    for own, score, kl in zip(rows, (2.0, 1.0), (4.0, 8.0), strict=True):
        write_run(own["experiment"], 0, lines_of(score, kl, 1, 0))
    page = page_of(places, tmp_path / "outputs")
    (better, worse) = [line.split(" | ") for line in page.splitlines() if "| PPO | " in line]
    assert better[1:5] == ["1e-5", "1.98", "-4.00", "yes"]
    assert worse[1:5] == ["1e-4", "0.98", "-8.00", "no"]
    assert row(page, "method")[1:5] == ["eta", "task reward", "-KL (nats)", "on its frontier"]


@pytest.mark.slow
def test_a_grid_page(write_run: WriteRun, tmp_path: Path) -> None:
    rows = [
        {"lr": "1e-5", "eta": eta, "label": None, "experiment": f"cory/{name}"}
        for eta, name in {"1e-5": "gsm8k_ppo_eta1e-5", "1e-4": "gsm8k_ppo_eta1e-4"}.items()
    ]
    places = one_table(tmp_path, {"kind": "grid", "rows": rows})
    write_run(rows[0]["experiment"], 0, lines_of(2.0, 4.0, 1, 0))
    page = page_of(places, tmp_path / "outputs")
    cells = row(page, "1e-5 | 1e-5")
    assert cells[3] == "4.00"  # KL
    # unsteadiness: it still rises, which gives 0.12, less what the draw of 128 responses explains
    assert 0.09 < float(cells[5]) < 0.12
    assert row(page, "1e-5 | 1e-4")[2:6] == ["-"] * 4
    said = "the variance of the combined reward over the iterations of a run's last half, "
    assert f"Unsteadiness: {said}less the mean of the squared standard errors" in page


def test_every_kind_says_how_to_read_its_picture() -> None:
    assert len(TABLE_KINDS) == 16 and len(COMPUTED) == 2
    for name, kind in TABLE_KINDS.items():
        assert (kind.figure is None) == (kind.reading == ""), name
