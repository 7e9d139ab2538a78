"""What a finished run leaves is on the disk itself before the checkpoints are removed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cory.config import Config, builder
from cory.runs.durable import begins_with, fault_of
from cory.runs.recorder import Recorder
from cory.runtime.exporting import export_agents
from cory.runtime.worker import build_parts


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Inodes of files and folders that have been synced."""
    found: set[int] = set()
    fsync = os.fsync

    def noted(handle: int) -> None:
        found.add(os.fstat(handle).st_ino)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    return found


def test_exported_agents_are_on_the_disk(
    config_of: Callable[..., Config], tmp_path: Path, synced: set[int]
) -> None:
    config = config_of()
    parts = replace(build_parts(config), commit="of the start")
    agents = builder("algorithm", config.algorithm.name)(config.algorithm, parts).agents
    files = export_agents(agents, parts, tmp_path)
    card = tmp_path / "agents" / next(iter(agents)) / "README.md"
    assert "| commit | of the start |" in card.read_text()
    left = [*(tmp_path / "agents").rglob("*"), tmp_path / "agents", tmp_path]
    assert len(left) > 10 and {path.stat().st_ino for path in left} <= synced
    for path in left:
        if path.is_file():
            content = path.read_bytes()
            own = files.pop(str(path.relative_to(tmp_path / "agents")))
            assert own == (len(content), hashlib.sha256(content).hexdigest())
    assert not files


def test_records_are_on_the_disk(
    config_of: Callable[..., Config], tmp_path: Path, synced: set[int]
) -> None:
    (tmp_path / "config.yaml").touch()
    recorder = Recorder(tmp_path, config_of(), 0)
    recorder.start(0, None)
    recorder.log(0, {"a": 1.0, "time/b": 2.0})
    recorder.log_lines([{"iteration": 0}])
    recorder.log_scores({"iteration": 0})
    synced.clear()
    recorder.finish({"agents/x": (3, "digest")})
    recorder.close()
    named = json.loads((tmp_path / "record.json").read_text())["files"]
    assert named.pop("agents/x") == [3, "digest"]
    records = ["metrics.jsonl", "prompt_scores.jsonl", "samples.jsonl", "times.jsonl"]
    assert sorted(named) == records
    assert fault_of(tmp_path, [(name, *own) for name, own in named.items()]) is None
    assert all(size > 0 for size, _ in named.values())
    for path in (*(tmp_path / name for name in named), tmp_path / "record.json", tmp_path):
        assert path.stat().st_ino in synced, path
    assert not (tmp_path / "digests.json").exists()


def test_the_state_of_the_record_names_its_files(
    config_of: Callable[..., Config], tmp_path: Path
) -> None:
    recorder = Recorder(tmp_path, config_of(), 0)
    recorder.start(0, None)
    recorder.log(0, {"a": 1.0})
    for name, (size, sha256) in recorder.state_dict()["files"].items():
        content = (tmp_path / name).read_bytes()
        assert (size, sha256) == (len(content), hashlib.sha256(content).hexdigest())
    recorder.close()


def test_the_beginning_of_a_file_is_compared(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc" * 2_000_000)  # more than is read at once
    for size in (0, 1, 5_999_999, 6_000_000):
        digest = hashlib.sha256(path.read_bytes()[:size]).hexdigest()
        assert begins_with(path, size, digest)
        assert not begins_with(path, size, hashlib.sha256(b"other").hexdigest())
    assert not begins_with(path, 6_000_001, hashlib.sha256(path.read_bytes()).hexdigest())
    empty = hashlib.sha256(b"").hexdigest()
    assert begins_with(tmp_path / "none", 0, empty)
    assert not begins_with(tmp_path, 0, empty)  # a folder
