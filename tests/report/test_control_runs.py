"""Runs that only a positive control is about: vetted as others are, and shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from cory.report.pages.write import checked
from cory.report.records.archive import Archived, Refused
from cory.report.records.collect import CountedRuns, collect
from tests.support.composing import CONF
from tests.support.made_up_runs import OTHER, WriteRun, lines_of
from tests.support.reporting import made, places_in, row

PPO = "cory/imdb_ppo"  # of fig. 6 only the control is about it; fig. 3 runs it
MIXED = "fp32 weights, bf16 products"


def fig6(tmp_path: Path) -> tuple[CountedRuns, str]:
    """Fig. 6 after fig. 3's runs were gathered."""
    made(tmp_path, "fig3", allow_dirty=True)
    return made(tmp_path, "fig6")


def runs_of_fig6(write_run: WriteRun) -> None:
    for seed in range(5):
        write_run("cory/imdb_cory", seed, lines_of(2.0, 4.0, 2, seed))


@pytest.mark.slow
def test_they_are_listed_below_the_others(write_run: WriteRun, tmp_path: Path) -> None:
    runs_of_fig6(write_run)
    for seed in range(5):
        write_run(PPO, seed, lines_of(2.0, 20.0, 1, seed))
    found, text = fig6(tmp_path)
    assert {run.experiment for run in found.runs} == {"cory/imdb_cory"}
    assert [run.name for run in found.control_runs] == [f"{PPO}/seed{seed}" for seed in range(5)]
    assert not found.notes and not found.refused
    own, controls = text.split("## Runs")[1].split("Runs that only the positive control is about:")
    assert own.count("| `cory/imdb_cory/seed") == 5 and PPO not in own
    assert controls.count(f"| `{PPO}/seed") == 5
    assert "5 runs of" in row(text, "small | paper")[-1]  # the head is about the page's own


@pytest.mark.slow
def test_doubts_about_them_are_named_once(write_run: WriteRun, tmp_path: Path) -> None:
    runs_of_fig6(write_run)
    write_run(PPO, 0, lines_of(2.0, 20.0, 1, 0), clean=False)
    write_run(PPO, 1, lines_of(2.0, 20.0, 1, 1), commit=OTHER, commits=[OTHER])
    write_run(PPO, 2, lines_of(2.0, 20.0, 1, 2), settings={"algorithm.kl_coef": 0.5})
    for name in ("fig6", "fig3"):  # there it is a control's run, here the page's own
        made(tmp_path, "fig3", allow_dirty=True)
        found, text = made(tmp_path, name, allow_dirty=True)
        own = [note for note in found.notes if note.startswith(f"`{PPO}/")]
        assert own == [
            f"`{PPO}/seed0`: from a dirty tree (commit aaaaaaa)",
            f"`{PPO}/seed1`: commit bbbbbbb, whose code is not its neighbours'",
            f"`{PPO}/seed2`: algorithm.kl_coef was 0.5, conf/ has 0.03",
        ]
        assert all(text.count(f"- {note}") == 1 for note in own)


@pytest.mark.slow
def test_those_that_do_not_count_are_named(write_run: WriteRun, tmp_path: Path) -> None:
    runs_of_fig6(write_run)
    write_run(PPO, 0, lines_of(2.0, 20.0, 1, 0), settings={"model.compute_precision": "bf16"})
    for seed in (1, 2, 3):
        write_run(PPO, seed, lines_of(2.0, 20.0, 1, seed))
    write_run(PPO, 4, lines_of(2.0, 20.0, 1, 4, iterations=19))
    found, text = fig6(tmp_path)
    assert set(found.controls[PPO]) == {1, 2, 3}
    named = ", ".join(f"{PPO}/seed{seed}" for seed in (1, 2, 3))
    assert f"- `{PPO}/seed0`: {MIXED}, but fp32 in {named}" in text.splitlines()
    assert f"- `{PPO}/seed4`: 19 iterations are fewer than two windows of 10" in text.splitlines()
    assert row(text, "PPO raises task reward")[-1] == "not run (2 of 5 seeds)"


@pytest.mark.slow
def test_a_refused_one_alone_makes_no_page(write_run: WriteRun, tmp_path: Path) -> None:
    write_run(PPO, 0, lines_of(2.0, 20.0, 1, 0, iterations=19))
    found, text = fig6(tmp_path)
    assert [one.name for one in found.refused] == [f"{PPO}/seed0"] and text == ""


def test_what_gathering_refused_of_them_is_named() -> None:
    table = checked(places_in(CONF), "cory", "fig6", "small")
    refused = [Refused(name, f"{name}/seed0", "why", 0) for name in (PPO, "cory/gsm8k_ppo")]
    assert [one.experiment for one in collect(table, [], refused).refused] == [PPO]


def test_the_page_s_own_runs_say_which_code_is_usual() -> None:
    def run(experiment: str, seed: int, commit: str) -> Archived:
        record = {"commit": commit, "clean": True, "began": "", "iterations": 40, "device": "CPU"}
        return Archived(experiment, seed, "small", "paper", record, commit, [], {}, [], [])

    table = checked(places_in(CONF), "cory", "fig6", "small")
    own, controls = [run("cory/imdb_cory", 0, "a")], [run(PPO, seed, "b") for seed in (0, 1)]
    notes = collect(table, [*own, *controls], []).notes
    assert [note.partition(":")[0] for note in notes] == [f"`{PPO}/seed0`", f"`{PPO}/seed1`"]
    assert collect(table, controls, []).notes == []
