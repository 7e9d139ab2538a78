"""Commits that were tried and give an experiment the same numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cory.report.records.same_code import (
    SAME_FILE,
    SameCode,
    add_same,
    codes_like,
    first_difference,
    read_same,
)
from tests.support.made_up_runs import COMMIT, OTHER, WriteRun, lines_of
from tests.support.reporting import ROOT, made, row, write_all

NOT_A_NUMBER = float("nan")


def same(experiment: str, *codes: str, iterations: int = 3) -> SameCode:
    one, other = codes
    return SameCode(experiment, (one, other), (one, other), iterations, ("seed=1",), "CPU")


def test_codes_are_alike_through_others_and_for_one_experiment() -> None:
    entries = [same("cory/a", "1", "2"), same("cory/a", "3", "2"), same("cory/b", "3", "4")]
    assert codes_like(entries, "cory/a", "1") == {"1", "2", "3"}
    assert codes_like(entries, "cory/a", "3") == {"1", "2", "3"}
    assert codes_like(entries, "cory/b", "3") == {"3", "4"}
    assert codes_like(entries, "cory/c", "1") == {"1"}
    assert codes_like(entries, "cory/a", None) == {None}


def test_what_differs_is_named() -> None:
    line = {"iteration": 0, "a": 1.0, "b": NOT_A_NUMBER}
    assert first_difference([line], [{**line, "b": float("nan")}]) is None
    assert first_difference([line], []) == "1 lines and 0"
    assert first_difference([line], [{**line, "a": 1.0 + 2e-16 * 2}]) == (
        "iteration 0: a is 1.0 and 1.0000000000000004"
    )
    assert first_difference([line], [{"iteration": 0, "b": NOT_A_NUMBER}]) == (
        "iteration 0: a is 1.0 and missing"
    )
    assert first_difference([line], [{**line, "b": 0.0}]) == "iteration 0: b is nan and 0.0"


def test_entries_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert read_same(tmp_path) == []
    one, other = same("cory/b", "1", "2"), same("cory/a", "1", "2")
    add_same(tmp_path, one)
    add_same(tmp_path, other)
    assert read_same(tmp_path) == [other, one]
    again = same("cory/b", "2", "1", iterations=9)
    add_same(tmp_path, again)  # about the same codes
    assert read_same(tmp_path) == [other, again]
    for damaged in ("{", "[1]", '[{"experiment": "cory/a"}]', '[{"commits": 3}]'):
        (tmp_path / SAME_FILE).write_text(damaged)
        with pytest.raises(ValueError, match=f"{SAME_FILE} cannot be read"):
            read_same(tmp_path)


def test_pages_count_such_runs_as_of_one_code(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run, (0, 2))
    write_run("cory/imdb_ppo", 1, lines_of(2, 20, 1, 1), commit=OTHER, commits=[OTHER])
    records = tmp_path / "docs" / "cory" / "records" / "small"
    add_same(records, same("cory/imdb_cory", COMMIT, OTHER))  # of another experiment
    _, text = made(tmp_path)
    assert "- `cory/imdb_ppo/seed1`: commit bbbbbbb, whose code is not its neighbours'" in text
    add_same(records, same("cory/imdb_ppo", COMMIT, OTHER))
    _, text = made(tmp_path)
    assert "neighbours" not in text
    assert "- `cory/imdb_ppo`: commit bbbbbbb, tried to give the same numbers" in text
    assert row(text, "small | paper")[4] == "aaaaaaa, bbbbbbb"


@pytest.mark.slow
def test_a_change_of_the_numbers_is_found_and_no_other(tmp_path: Path) -> None:
    clone = tmp_path / "clone"

    def git(*words: str) -> str:
        known = ("-c", "user.name=a", "-c", "user.email=a@b")
        done = subprocess.run(["git", *known, *words], cwd=clone, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    cloned = subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)])
    if cloned.returncode:  # an unpacked archive of the sources has no commits
        assert not (ROOT / ".git").exists()
        return
    commits = [git("rev-parse", "HEAD")]
    losses = clone / "cory" / "functional" / "losses.py"
    step = "free = -advantages * ratio"
    for old, new in ((step, f"{step}  # words"), (step, "free = advantages * ratio")):
        changed = losses.read_text().replace(old, new)
        assert changed != losses.read_text()
        losses.write_text(changed)
        git("commit", "--quiet", "--all", "--message", "change")
        commits.append(git("rev-parse", "HEAD"))

    def tried(one: str, other: str) -> subprocess.CompletedProcess[str]:
        words = ("quickstart", one, other, "--iterations", "1", "--docs", str(tmp_path / "docs"))
        few = ("algorithm.prompts_per_iteration=8", "algorithm.minibatch_size=8")
        return subprocess.run(
            [sys.executable, "scripts/same_code.py", *words, *few, "evaluation.prompts=2"],
            cwd=clone,
            env=os.environ | {"PYTHONPATH": str(clone)},
            capture_output=True,
            text=True,
        )

    alike, other = tried(commits[0], commits[1]), tried(commits[1], commits[2])
    assert alike.returncode == 0 and " train quickstart alike: 1 iterations" in alike.stdout
    assert other.returncode == 1 and "differently: iteration 0: " in other.stderr
    assert len(git("worktree", "list").splitlines()) == 1
    unknown = tried(commits[0], "nowhere")
    assert unknown.returncode == 1 and unknown.stderr.startswith("error: git rev-parse: ")
