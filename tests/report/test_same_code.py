"""Commits that were tried and give an experiment the same numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from cory.report.records.archive import Archived
from cory.report.records.collect import common_code
from cory.report.records.same_code import (
    SAME_FILE,
    SameCode,
    add_same,
    first_difference,
    path_between,
    read_same,
    remove_same,
)
from tests.support.made_up_runs import COMMIT, OTHER, WriteRun, lines_of
from tests.support.reporting import ROOT, made, row, write_all

NOT_A_NUMBER = float("nan")
BF16 = {"model": "fp32 weights, bf16 products"}


def same(
    experiment: str,
    *codes: str,
    iterations: int = 3,
    words: tuple[str, ...] = ("seed=1",),
    precision: Mapping[str, str] = BF16,
) -> SameCode:
    (one, other), commits = codes, ("a" * 40, "b" * 40)
    return SameCode(experiment, commits, (one, other), iterations, words, "CPU", precision)


def run_of(
    experiment: str, precision: Mapping[str, str] = BF16, code: str = "1", began: str = ""
) -> Archived:
    record = {"precision": precision, "began": began}
    return Archived(experiment, 0, "small", "paper", record, code, [], {}, [], [])


def test_codes_are_alike_through_others_and_for_one_experiment_and_precision() -> None:
    first, second, third = (
        same("cory/a", "1", "2", iterations=5),
        same("cory/a", "3", "2"),
        same("cory/b", "3", "4"),
    )
    entries = [third, second, first]
    assert path_between(entries, run_of("cory/a"), "1", "2") == [first]
    assert path_between(entries, run_of("cory/a"), "2", "1") == [first]
    assert path_between(entries, run_of("cory/a"), "1", "3") == [first, second]
    assert path_between(entries, run_of("cory/a"), "1", "4") == []
    assert path_between(entries, run_of("cory/b"), "3", "4") == [third]
    assert path_between(entries, run_of("cory/b"), "1", "2") == []
    assert path_between(entries, run_of("cory/a"), None, "2") == []
    assert path_between(entries, run_of("cory/a", {"model": "fp32"}), "1", "2") == []


def test_the_common_code_is_the_one_that_most_runs_agree_with() -> None:
    """A younger experiment's, where the older ones were tried at its commit."""
    older = [run_of("cory/a", began="1"), run_of("cory/a", began="2"), run_of("cory/b", began="3")]
    runs = [*older, run_of("cory/new", code="2", began="4")]
    assert common_code(runs, []) == "1"
    assert common_code(runs, [same("cory/a", "1", "2")]) == "1"  # three agree with either
    assert common_code(runs, [same("cory/a", "2", "1"), same("cory/b", "1", "2")]) == "2"
    assert common_code([*older[1:], *runs[3:] * 2], []) == "2"  # as frequent: the last one
    assert common_code([], []) is None


def test_what_was_repeated_is_said() -> None:
    said = [same("cory/a", "1", "2", iterations=n).repeated for n in (0, 1, 3)]
    assert said == [
        "its evaluation gives",
        "its first iteration gives",
        "its first 3 iterations give",
    ]


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
    gap = {**line, "objective/sampler_gap_max/agent_0": 1.0}
    assert first_difference([line], [gap]) is None


def test_entries_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert read_same(tmp_path) == []
    one, other = same("cory/b", "1", "2"), same("cory/a", "1", "2")
    add_same(tmp_path, one)
    add_same(tmp_path, other)
    assert read_same(tmp_path) == [other, one]
    again = same("cory/b", "2", "1", iterations=9)
    add_same(tmp_path, again)  # about the same codes, with the same words
    assert read_same(tmp_path) == [other, again]
    later = same("cory/b", "1", "2", words=("seed=2",))
    add_same(tmp_path, later)
    assert read_same(tmp_path) == [other, again, later]
    assert remove_same(tmp_path, one) == 2 and read_same(tmp_path) == [other]
    assert remove_same(tmp_path, one) == 0
    for damaged in ("{", "[1]", '[{"experiment": "cory/a"}]', '[{"commits": 3}]'):
        (tmp_path / SAME_FILE).write_text(damaged)
        with pytest.raises(ValueError, match=f"{SAME_FILE} cannot be read"):
            read_same(tmp_path)


@pytest.mark.slow
def test_pages_count_such_runs_as_of_one_code(
    write_run: WriteRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = {COMMIT: "1", OTHER: "2"}
    monkeypatch.setattr("cory.report.records.gather.training_code", codes.get)
    write_all(write_run, (0, 2))
    write_run(
        "cory/imdb_ppo", 1, lines_of(2, 20, 1, 1), commit=OTHER, commits=[OTHER], precision=BF16
    )
    records = tmp_path / "docs" / "cory" / "records" / "small"
    add_same(records, same("cory/imdb_cory", "1", "2"))  # of another experiment
    add_same(records, same("cory/imdb_ppo", "1", "2", precision={"model": "fp32"}))
    _, text = made(tmp_path)
    assert "- `cory/imdb_ppo/seed1`: commit bbbbbbb, whose code is not its neighbours'" in text
    add_same(records, same("cory/imdb_ppo", "1", "2"))
    _, text = made(tmp_path)
    assert "neighbours" not in text
    assert (
        "- `cory/imdb_ppo`: commit bbbbbbb, where its first 3 iterations give the same numbers "
        "as at the commit of the others" in text
    )
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
    if cloned.returncode:
        assert not (ROOT / ".git").exists()
        pytest.skip("an unpacked archive of the sources has no commits")
    commits = [git("rev-parse", "HEAD")]
    losses = clone / "cory" / "functional" / "losses.py"
    step = "free = -advantages * ratio"
    for old, new in ((step, f"{step}  # words"), (step, "free = advantages * ratio")):
        changed = losses.read_text().replace(old, new)
        assert changed != losses.read_text()
        losses.write_text(changed)
        git("commit", "--quiet", "--all", "--message", "change")
        commits.append(git("rev-parse", "HEAD"))

    docs = tmp_path / "docs"

    def tried(*words: str) -> subprocess.CompletedProcess[str]:
        few = ("algorithm.prompts_per_iteration=8", "algorithm.minibatch_size=8")
        settings = (*few, "evaluation.prompts=2", "evaluation.probes=[]")
        own = ("--scale", "small", "--iterations", "1", "--docs", str(docs))
        return subprocess.run(
            [sys.executable, "scripts/same_code.py", "cory/imdb_ppo", *own, *words, *settings],
            cwd=clone,
            env=os.environ | {"PYTHONPATH": str(clone)},
            capture_output=True,
            text=True,
        )

    records = docs / "cory" / "records" / "small"
    alike = tried(commits[0], commits[1])
    assert alike.returncode == 0, alike.stderr
    assert "cory/imdb_ppo: its first iteration gives the same numbers" in alike.stdout
    (entry,) = read_same(records)
    assert entry.commits == (commits[0], commits[1]) and entry.iterations == 1
    other = tried(commits[1], commits[2])
    assert other.returncode == 1 and "differently: iteration 0: " in other.stderr
    assert read_same(records) == [entry]
    assert len(git("worktree", "list").splitlines()) == 1
    refused = {
        ("nowhere", commits[0]): "error: this checkout has no commit nowhere",
        (commits[0], commits[1], "scale=paper"): "error: scale=paper: say --scale",
        (
            commits[0],
            commits[1],
            "--iterations",
            "0",
        ): "error: --iterations 0: cory/imdb_ppo trains",
    }
    for words, said in refused.items():
        done = tried(*words)
        assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith(said)
