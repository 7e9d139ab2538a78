"""Folders that scripts write into: those of others are refused and stay as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from cory.config import ConfigError
from cory.runs.own_folder import require_own_folder


def test_a_folder_is_new_or_empty_or_bears_a_mark(tmp_path: Path) -> None:
    require_own_folder(tmp_path / "new", ("mark",), "--work")
    require_own_folder(tmp_path, ("mark",), "--work")
    for name in "abcd":
        (tmp_path / name).touch()
    said = r"^--work holds a, b, c, \.\.\. and nothing of this command; name a new or an empty"
    with pytest.raises(ConfigError, match=said):
        require_own_folder(tmp_path, ("mark",), "--work")
    (tmp_path / "mark").touch()
    require_own_folder(tmp_path, ("other", "mark"), "--work")
    with pytest.raises(ConfigError, match="is a file; name a folder"):
        require_own_folder(tmp_path / "mark", ("mark",), "--work")
