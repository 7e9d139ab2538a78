"""conf/paper: what it names is there, and what is wrong in such a file is refused by its key."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from cory.report.papers import Paper, load
from tests.support.composing import CONF, jobs, options

NAMES = sorted(path.stem for path in (CONF / "paper").glob("*.yaml"))
# what rows of every model name, and some models lack: closed ones, and methods of ours
LACKING = ("_star", "_adapters", "_union", "_from_base")
MADE = {
    "title": "T",
    "tables": {
        "tab1": {
            "title": "Table 1",
            "columns": {"score": "objective/score/{}", "right %": "eval/right/{}"},
            "rows": {"A": "a", "B": {"first": ["b", "agent_1", 3.5], "second": "x/c"}},
            "word": "agent_0",
        }
    },
}


@pytest.mark.parametrize("name", NAMES)
def test_every_table_is_run_by_the_sweep_of_its_name(name: str) -> None:
    known = set(options("experiment"))
    for table in load(CONF / "paper" / f"{name}.yaml").tables.values():
        if table.computed:
            continue
        swept = {run for run, _ in jobs(f"{name}/{table.name}")}
        rows = {one.replace("{head}", "") for one in table.experiments()}
        assert rows & known <= swept, table.name
        lacking = {one for one in rows - known if not one.startswith("maft/gpt35_")}
        assert all(one.startswith("maft/") and one.endswith(LACKING) for one in lacking), lacking


@pytest.mark.parametrize("name", NAMES)
def test_every_sweep_of_a_paper_has_a_table(name: str) -> None:
    tables = set(load(CONF / "paper" / f"{name}.yaml").tables)
    sweeps = {sweep for sweep in options("sweep") if sweep.startswith(f"{name}/")}
    assert sweeps and {sweep.partition("/")[2] for sweep in sweeps} <= tables


def made(tmp_path: Path, change: dict[str, object] | None = None) -> Paper:
    content = yaml.safe_load(yaml.safe_dump(MADE))
    content["tables"]["tab1"].update(change or {})
    path = tmp_path / "some.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    load.cache_clear()
    return load(path)


def test_rows_of_a_file(tmp_path: Path) -> None:
    table = made(tmp_path).tables["tab1"]
    first, second, third = table.each_row
    assert (first.name, first.experiment, first.word) == ("A", "some/a", "agent_0")
    assert (second.name, second.experiment) == ("B: first", "some/b")
    assert (second.word, second.printed) == ("agent_1", [3.5])
    assert third.experiment == "x/c"


def test_rows_for_each_model_and_task(tmp_path: Path) -> None:
    rows = {"Base": ["{model}_{task}", "", {"m1": [1.0, 2.0], "m2": [3.0]}]}
    change = {
        "models": {"One": "m1", "Two": "m2"},
        "rows": rows,
        "columns": {"X": ["eval/x", "x"], "Y": ["eval/x", "y"]},
    }
    table = made(tmp_path, change).tables["tab1"]
    assert [row.name for row in table.each_row] == ["One: Base", "Two: Base"]
    assert [row.printed for row in table.each_row] == [[1.0, 2.0], [3.0]]
    assert table.experiments() == ["some/m1_x", "some/m1_y", "some/m2_x", "some/m2_y"]
