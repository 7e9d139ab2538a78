"""Files that survive a kill: whole lines stay, torn ones are cut off, failures are said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cory.runs.files import (
    append_lines,
    keep_lines,
    read_lines,
    whole_lines,
)

LINES = [{"n": 1, "text": "\u2028 ‘x’\n"}, {"n": 2}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "folder" / "lines.jsonl"
    assert whole_lines(path) == b""
    keep_lines(path, b"")
    append_lines(path, LINES)
    return path


def test_lines_come_back_without_a_torn_one_and_more_follow(path: Path) -> None:
    whole = path.read_bytes()
    assert read_lines(path) == LINES
    for torn in (b'{"n": 3', b'{"n": 3}', b"\0\0"):
        path.write_bytes(whole + torn)
        assert whole_lines(path) == whole
        assert path.read_bytes() == whole + torn  # reading alone changes nothing
        keep_lines(path, whole)
        append_lines(path, [])
        append_lines(path, [{"n": 4}])
        assert path.read_bytes() == whole + b'{"n": 4}\n'


def test_a_file_is_replaced_in_one_step(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = path.read_bytes()
    first = whole[: whole.index(b"\n") + 1]

    def fails(self: Path, target: Path) -> None:
        raise OSError(5, "killed here")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "replace", fails)
        with pytest.raises(OSError, match=r"killed here.*lines\.jsonl'$"):
            keep_lines(path, first)
    assert path.read_bytes() == whole
    assert [*path.parent.iterdir()] == [path]
    keep_lines(path, first)
    assert read_lines(path) == LINES[:1]


@pytest.mark.parametrize("damaged", [b"\0\0", b"3", b"[{}]", b"null", b"\xff"])
def test_a_damaged_line_is_named(damaged: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b'{"n": 1}\n' + damaged + b"\n")
    with pytest.raises(ValueError, match=r"x, line 2: "):
        read_lines(tmp_path / "x")


def test_a_full_disk_is_said_and_leaves_no_part_of_a_line(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device.*lines\.jsonl"):
        append_lines(path, [{"n": 3}])
    assert read_lines(path) == LINES
