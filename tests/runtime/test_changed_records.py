"""Records that were changed: refused or made again on resume, and not believed when finished."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from cory.runs.checkpoint import hashes_of
from tests.support.commands import PATIENCE, last_wins, short_settings
from tests.support.warm import WarmCommand

WORDS = ["algorithm.iterations=12", "checkpoint_every=1", "evaluate_every=1", "samples_every=1"]
RECORDS = ("metrics.jsonl", "samples.jsonl")
Start = Callable[..., WarmCommand]


@pytest.fixture(scope="module")
def start(
    tiny_model: str, tiny_judge: str, reviews_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Start:
    """Starts the command with short settings, in the folder of this module."""
    base = short_settings(tiny_model, tiny_judge, reviews_file)
    folder = tmp_path_factory.mktemp("changed")
    return lambda run_dir, *words: WarmCommand(
        folder, last_wins([*base, *WORDS, f"run_dir={run_dir}", *words])
    )


@pytest.fixture(scope="module")
def whole(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    run_dir = tmp_path_factory.mktemp("whole") / "run"
    command = start(run_dir)
    assert command.wait() == 0, command.err
    return run_dir


@pytest.fixture(scope="module")
def stopped(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, stopped within its first iterations."""
    run_dir = tmp_path_factory.mktemp("stopped") / "run"
    command = start(run_dir)
    metrics = run_dir / "metrics.jsonl"
    until = time.monotonic() + PATIENCE
    while not (metrics.exists() and metrics.read_bytes().count(b"\n") >= 2):
        assert time.monotonic() < until and command.poll() is None, command.err
        time.sleep(0.02)
    (run_dir / "stop").touch()
    assert command.wait() not in (0, 1)
    assert 2 <= metrics.read_bytes().count(b"\n") < 12 and (run_dir / "digests.json").exists()
    return run_dir


@pytest.fixture
def copied(stopped: Path, whole: Path, tmp_path: Path) -> Callable[[str], Path]:
    def copy(which: str) -> Path:
        place = tmp_path / "run"
        shutil.copytree({"stopped": stopped, "whole": whole}[which], place)
        return place

    return copy


def change_a_digit(path: Path, line: int) -> None:
    rows = path.read_bytes().splitlines(keepends=True)
    at = rows[line].rindex(b"1") if b"1" in rows[line] else rows[line].rindex(b"2")
    rows[line] = rows[line][:at] + b"7" + rows[line][at + 1 :]
    path.write_bytes(b"".join(rows))


def assert_as(run_dir: Path, whole: Path) -> None:
    """The same records and weights, byte for byte."""
    for name in (*RECORDS, "agents/agent_0/model.safetensors"):
        assert (run_dir / name).read_bytes() == (whole / name).read_bytes(), name


@pytest.mark.slow
def test_a_resumed_run_checks_its_records_in_silence(
    start: Start, copied: Callable[[str], Path], whole: Path
) -> None:
    run_dir = copied("stopped")
    command = start(run_dir)
    assert command.wait() == 0 and "note:" not in command.err, command.err
    assert_as(run_dir, whole)
    assert not (run_dir / "digests.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDS)
def test_a_changed_digit_before_the_checkpoint_is_refused(
    start: Start, copied: Callable[[str], Path], name: str
) -> None:
    run_dir = copied("stopped")
    change_a_digit(run_dir / name, 0)
    before = (run_dir / name).read_bytes()
    command = start(run_dir)
    assert command.wait() == 1
    (said,) = command.err.splitlines()
    assert said.startswith(f"error: {run_dir / name} is not what the run has written"), said
    assert (run_dir / name).read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDS)
def test_a_changed_digit_behind_the_checkpoint_is_made_again(
    start: Start, copied: Callable[[str], Path], whole: Path, name: str
) -> None:
    run_dir = copied("stopped")
    older, newest = sorted((run_dir / "checkpoints").iterdir())
    shutil.rmtree(newest)
    rows = [json.loads(row) for row in (run_dir / name).read_bytes().splitlines()]
    # of the last iteration before the older one, which was evaluated and logged after it
    behind = [
        number
        for number, row in enumerate(rows)
        if row["iteration"] == int(older.name) - 1 and row.get("kind") != "training"
    ]
    change_a_digit(run_dir / name, behind[-1])
    command = start(run_dir)
    assert command.wait() == 0, command.err
    assert f"note: {run_dir / name} was changed behind" in command.err
    assert_as(run_dir, whole)


@pytest.mark.slow
def test_other_versions_than_at_the_start_are_said_and_kept(
    start: Start, copied: Callable[[str], Path], whole: Path
) -> None:
    run_dir = copied("stopped")
    (place,) = sorted((run_dir / "checkpoints").iterdir())[-1:]
    state = torch.load(place / "state_0.pt", weights_only=True)
    state["record"]["packages"] = [{**state["record"]["packages"][0], "torch": "2.12.0"}]
    _reseal(place, state)
    command = start(run_dir)
    assert command.wait() == 0, command.err
    assert f"note: {run_dir} was begun with torch 2.12.0, now 2." in command.err
    record = json.loads((run_dir / "record.json").read_text())
    assert [one["torch"] for one in record["earlier_packages"]] == ["2.12.0"]
    assert record["packages"]["torch"] != "2.12.0"
    assert "earlier_packages" not in json.loads((whole / "record.json").read_text())


def _reseal(place: Path, state: object) -> None:
    """Another state in a checkpoint, with its hash."""
    torch.save(state, place / "state_0.pt")
    manifest = json.loads((place / "manifest.json").read_text())
    manifest["files"] |= hashes_of(place, ["state_0.pt"])
    (place / "manifest.json").write_text(json.dumps(manifest))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGED = pytest.mark.parametrize(
    ("file", "damage", "said"),
    [
        ("agents", shutil.rmtree, "is not there"),
        ("agents/agent_0/model.safetensors", cut, " bytes"),
        ("agents/agent_0/model.safetensors", flip, "is not what was written"),
        ("agents/agent_0/tokenizer.json", Path.unlink, "tokenizer.json is not there"),
        ("metrics.jsonl", flip, "metrics.jsonl is not what was written"),
        ("metrics.jsonl", Path.unlink, "metrics.jsonl is not there"),
        ("samples.jsonl", Path.unlink, "samples.jsonl is not there"),
        ("record.json", lambda path: path.write_text(""), "its record.json cannot be read"),
        ("record.json", lambda path: path.write_text("[]"), "its record.json cannot be read"),
        ("record.json", lambda path: path.write_text('{"files": 3}'), "lists no files"),
        (
            "record.json",
            lambda path: path.write_text('{"files": {"metrics.jsonl": [Infinity, "x"]}}'),
            "lists no files",
        ),
    ],
)


@pytest.mark.slow
@DAMAGED
def test_a_finished_run_is_believed_only_if_what_it_left_is_there(
    start: Start,
    copied: Callable[[str], Path],
    file: str,
    damage: Callable[[Path], object],
    said: str,
) -> None:
    run_dir = copied("whole")
    shutil.rmtree(run_dir / "checkpoints")  # as without keep_state
    damage(run_dir / file)
    before = {path: path.read_bytes() for path in run_dir.rglob("*.jsonl")}
    command = start(run_dir)
    assert command.wait() == 1
    (line,) = command.err.splitlines()
    assert line.startswith(f"error: run_dir={run_dir} holds a finished run, but "), line
    assert said in line and "is complete" not in command.out
    assert {path: path.read_bytes() for path in run_dir.rglob("*.jsonl")} == before


@pytest.mark.slow
@DAMAGED
def test_a_damaged_run_with_its_state_is_mended_or_refused(
    start: Start,
    copied: Callable[[str], Path],
    whole: Path,
    file: str,
    damage: Callable[[Path], object],
    said: str,
) -> None:
    """Agents and the record are written again from the state; records of iterations cannot be."""
    run_dir = copied("whole")
    damage(run_dir / file)
    left = {path: path.read_bytes() for path in run_dir.rglob("*.jsonl")}
    command = start(run_dir)
    refused = file.endswith(".jsonl")
    assert command.wait() == (1 if refused else 0)
    note, *rest = command.err.splitlines()
    assert note.startswith(f"note: {run_dir} is not finished: ") and said in note
    if not refused:
        assert not rest
        assert_as(run_dir, whole)
        again = start(run_dir)
        assert again.wait() == 0 and "is complete" in again.out
        return
    (line,) = rest
    assert line.startswith(f"error: {run_dir / file} is not what the run has written")
    assert {path: path.read_bytes() for path in run_dir.rglob("*.jsonl")} == left


@pytest.mark.slow
def test_a_finished_run_that_was_not_changed_is_complete(
    start: Start, copied: Callable[[str], Path]
) -> None:
    run_dir = copied("whole")
    record = json.loads((run_dir / "record.json").read_text())
    left = {str(path.relative_to(run_dir)) for path in (run_dir / "agents").rglob("*.*")}
    assert left | {*RECORDS, "times.jsonl", "prompt_scores.jsonl"} == record["files"].keys()
    command = start(run_dir)
    assert command.wait() == 0
    assert "is complete" in command.out and command.err == ""


@pytest.mark.slow
def test_an_empty_record_beside_checkpoints_is_no_end(
    start: Start, copied: Callable[[str], Path], whole: Path
) -> None:
    """As after a loss of power while the last files were written."""
    run_dir = copied("stopped")
    (run_dir / "record.json").touch()
    command = start(run_dir)
    assert command.wait() == 0, command.err
    assert f"note: {run_dir} is not finished: its record.json cannot be read" in command.err
    assert_as(run_dir, whole)


def test_a_folder_in_the_place_of_a_record_is_refused(
    start: Start, copied: Callable[[str], Path]
) -> None:
    run_dir = copied("stopped")
    (run_dir / "metrics.jsonl").unlink()
    (run_dir / "metrics.jsonl").mkdir()
    command = start(run_dir)
    assert command.wait() == 1
    (line,) = command.err.splitlines()
    assert "metrics.jsonl is a folder" in line
