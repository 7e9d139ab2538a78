"""Files that survive a kill, and records on resume: cut back to what the checkpoint knows."""

import os
from pathlib import Path
from typing import Any

import pytest

from cory.config import Config, ConfigError
from cory.runs.files import append_lines, keep_lines, read_lines, whole_lines
from cory.runs.recorder import Recorder
from tests.support.composing import ConfigOf

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


def test_a_file_is_replaced_in_one_step(path: Path, monkeypatch) -> None:
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


def test_a_full_disk_is_said_and_leaves_no_part_of_a_line(path: Path, monkeypatch) -> None:
    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device.*lines\.jsonl"):
        append_lines(path, [{"n": 3}])
    assert read_lines(path) == LINES


NAMES = ("metrics.jsonl", "times.jsonl", "samples.jsonl", "prompt_scores.jsonl")


class Run:
    """Records of five iterations; a checkpoint is written before the fourth one is evaluated."""

    def __init__(self, run_dir: Path, config: Config) -> None:
        self.run_dir, self.config = run_dir, config
        recorder = Recorder(run_dir, config)
        recorder.start(0, None)
        for iteration in range(5):
            recorder.log_lines([{"iteration": iteration, "kind": "training", "text": "‘x’ \u2028"}])
            if iteration == 3:
                self.state = recorder.state_dict()
            recorder.log_lines([{"iteration": iteration, "kind": "evaluation"}])
            recorder.log_lines([{"iteration": iteration}], "prompt_scores.jsonl")
            recorder.log(iteration, {"reward": 0.25 * iteration, "time/step_s": 1.0})

    def again(self, state: Any) -> dict[str, list[int]]:
        """Go on after four iterations, of which the last is not evaluated; the lines that stay."""
        recorder = Recorder(self.run_dir, self.config)
        recorder.start(0 if state is None else 4, state)
        self.last = recorder.last
        return {name: [x["iteration"] for x in read_lines(self.run_dir / name)] for name in NAMES}


@pytest.fixture
def run(tmp_path: Path, config_of: ConfigOf) -> Run:
    return Run(tmp_path, config_of())


@pytest.mark.parametrize("torn", [b"", b'{"iteration": 3'])
def test_lines_behind_the_checkpoint_are_cut_off(run: Run, torn: bytes) -> None:
    if torn:
        path = run.run_dir / "metrics.jsonl"
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]) + torn)
    three = [0, 1, 2]
    kept = run.again(run.state)
    assert kept == dict(zip(NAMES, (three, three, [0, 0, 1, 1, 2, 2, 3], three), strict=True))
    assert run.last == {"reward": 0.5}


def test_without_a_checkpoint_the_records_begin_anew(run: Run) -> None:
    assert not any(run.again(None).values())


@pytest.mark.parametrize("name", NAMES)
def test_what_the_checkpoint_relies_on_has_to_be_there(run: Run, name: str) -> None:
    path = run.run_dir / name
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    others = {name: (run.run_dir / name).read_bytes() for name in NAMES}
    with pytest.raises(ConfigError, match=f"^{path} is not what the run has written"):
        run.again(run.state)
    assert {name: (run.run_dir / name).read_bytes() for name in NAMES} == others
