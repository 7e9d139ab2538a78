"""Files of JSON lines: whole lines survive a kill, torn ones are cut off, failures are said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cory.runs.jsonl import JsonlStore, decoded
from cory.runs.run_dir import WriteError

LINES = [{"n": 1, "text": "\u2028 ‘x’\n"}, {"n": 2}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    store = JsonlStore(tmp_path / "folder" / "lines.jsonl")
    assert store.read() == ([], b"")
    store.open([])
    store.append(LINES)
    store.close()
    return store.path


def test_lines_come_back_and_more_follow(path: Path) -> None:
    store = JsonlStore(path)
    rows, torn = store.read()
    assert (decoded(rows), torn) == (LINES, b"")
    store.open(rows)
    store.append([{"n": 3}])
    store.append([])
    assert decoded(store.read()[0]) == [*LINES, {"n": 3}]


def test_a_torn_line_is_cut_off_and_nothing_else(path: Path) -> None:
    whole = path.read_bytes()
    for torn in (b'{"n": 3', b'{"n": 3}', b"\0\0"):
        path.write_bytes(whole + torn)
        store = JsonlStore(path)
        rows, left = store.read()
        assert (decoded(rows), left) == (LINES, torn)
        assert path.read_bytes() == whole + torn  # reading alone changes nothing
        store.open(rows)
        assert path.read_bytes() == whole
        store.append([{"n": 4}])
        assert path.read_bytes() == whole + b'{"n": 4}\n'
        store.close()


def test_it_is_cut_back_to_the_chosen_lines_in_one_step(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = JsonlStore(path)
    rows, _ = store.read()
    whole = path.read_bytes()

    def fails(self: Path, target: Path) -> None:
        raise OSError(5, "killed here")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "replace", fails)
        with pytest.raises(WriteError):
            store.open(rows[1:])
    assert path.read_bytes() == whole
    store.open(rows[1:])
    assert decoded(store.read()[0]) == LINES[1:]


def test_damage_ends_the_values() -> None:
    for damaged in (
        b"\0\0",
        b"3",
        b"[{}]",
        b"null",
        b"[" * 100_000,
        b'{"n": ' + b"9" * 5000 + b"}",
    ):
        assert decoded([b'{"n": 1}', damaged, b'{"n": 2}']) == [{"n": 1}]


def test_the_size_is_that_of_the_file(path: Path) -> None:
    store = JsonlStore(path)
    rows, _ = store.read()
    for kept in (rows, rows[:1], []):
        store.open(kept)
        for number in range(3):
            assert store.size == len(path.read_bytes())
            store.append([{"n": number, "text": "é"}])
        store.close()


@pytest.mark.parametrize("each", [True, False])
def test_when_lines_are_on_the_disk_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, each: bool
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    store = JsonlStore(tmp_path / "lines.jsonl", sync_each=each)
    store.open([])
    assert len(synced) == 1  # the folder, in which the file may be new
    synced.clear()
    store.append(LINES)
    assert store.path.read_bytes().count(b"\n") == 2  # another process can read them
    assert len(synced) == each
    store.sync()
    assert len(synced) == each + 1


def test_after_a_failure_nothing_more_is_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    store = JsonlStore(path, "; make room")
    store.open(store.read()[0])
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        with pytest.raises(WriteError, match=r"cannot be written \(No space left on dev"):
            store.append([{"n": 3}])
    before = path.read_bytes()
    with pytest.raises(WriteError, match=r"\(No space left on device\); make room$"):
        store.append([{"n": 4}])
    assert path.read_bytes() == before
    store.close()


def test_a_disk_that_is_full_when_lines_are_put_on_it_is_said(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As over a network, where a write fails only then."""

    def full(file: int) -> None:
        raise OSError(122, "Disk quota exceeded")

    store = JsonlStore(path, "; make room", sync_each=False)
    store.open(store.read()[0])
    store.append([{"n": 3}])
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        with pytest.raises(WriteError, match=r"lines.jsonl .* \(Disk quota exceeded\); make r"):
            store.sync()
    with pytest.raises(WriteError):
        store.append([{"n": 4}])
    store.close()
