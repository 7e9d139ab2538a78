"""What a finished run leaves is on the disk itself before the checkpoints are removed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cory.config import Config, builder
from cory.runs.durable import PIECE, sha256_of
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
    export_agents(agents, parts, tmp_path)
    card = tmp_path / "agents" / next(iter(agents)) / "README.md"
    assert "| commit | of the start |" in card.read_text()
    left = [*(tmp_path / "agents").rglob("*"), tmp_path / "agents", tmp_path]
    assert len(left) > 10 and {path.stat().st_ino for path in left} <= synced


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
    recorder.finish()
    recorder.close()
    names = ("metrics.jsonl", "prompt_scores.jsonl", "samples.jsonl", "times.jsonl", "record.json")
    for path in (*(tmp_path / name for name in names), tmp_path):
        assert path.stat().st_size > 0 and path.stat().st_ino in synced, path


def test_the_hash_is_of_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for size in (0, 1, PIECE, PIECE + 1):
        path.write_bytes(b"a" * size)
        assert sha256_of(path) == hashlib.sha256(b"a" * size).hexdigest()
