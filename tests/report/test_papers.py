"""conf/paper: what it names is there."""

from __future__ import annotations

import pytest

from cory.report.papers import COMPUTED, load
from tests.support.composing import CONF, jobs, options

NAMES = sorted(path.stem for path in (CONF / "paper").glob("*.yaml"))
# what rows of every model name, and some models lack: closed ones, and methods of ours
LACKING = ("_star", "_adapters", "_union", "_from_base")


@pytest.mark.parametrize("name", NAMES)
def test_every_table_is_run_by_the_sweep_of_its_name(name: str) -> None:
    known = set(options("experiment"))
    for key, table in load(CONF / "paper" / f"{name}.yaml").tables.items():
        if table.scales == [COMPUTED]:
            continue
        swept = {run for run, _ in jobs(f"{name}/{key}")}
        rows = {one.replace("{head}", "") for one in table.experiments()}
        assert rows & known <= swept, key
        lacking = {one for one in rows - known if not one.startswith("maft/gpt35_")}
        assert all(one.startswith("maft/") and one.endswith(LACKING) for one in lacking), lacking


@pytest.mark.parametrize("name", NAMES)
def test_every_sweep_of_a_paper_has_a_table(name: str) -> None:
    tables = set(load(CONF / "paper" / f"{name}.yaml").tables)
    sweeps = {sweep for sweep in options("sweep") if sweep.startswith(f"{name}/")}
    assert sweeps and {sweep.partition("/")[2] for sweep in sweeps} <= tables
