"""Files that survive a kill: whole lines stay, torn ones are cut off, failures are said."""

from __future__ import annotations

from pathlib import Path

import pytest

from cory.runs.files import (
    WriteError,
    append_lines,
    keep_lines,
    read_lines,
    sound_lines,
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
    assert sound_lines(whole_lines(path).splitlines()) == read_lines(path) == LINES
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
        with pytest.raises(WriteError, match=r"lines\.jsonl cannot be written \(killed here\)"):
            keep_lines(path, first)
    assert path.read_bytes() == whole
    keep_lines(path, first)
    assert read_lines(path) == LINES[:1]


@pytest.mark.parametrize("damaged", [b"\0\0", b"[{}]"])
def test_damage_ends_the_values(damaged: bytes, tmp_path: Path) -> None:
    assert sound_lines([b'{"n": 1}', damaged, b'{"n": 2}']) == [{"n": 1}]
    (tmp_path / "x").write_bytes(b'{"n": 1}\n' + damaged + b"\n")
    with pytest.raises(ValueError, match=r"x, line 2: "):
        read_lines(tmp_path / "x")
