"""The guard on what tests leave changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.surroundings import changes, surroundings


def test_what_a_test_changes_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = surroundings()
    assert changes(before, surroundings()) == []
    monkeypatch.setenv("RANK", "0")
    monkeypatch.chdir(tmp_path)
    rank, folder = changes(before, surroundings())
    assert folder.startswith("the working directory: ") and folder.endswith(f"'{tmp_path}' after")
    assert rank == "the variable RANK: None before, '0' after"
