"""Made-up run directories; tests of the report alone need neither models nor torch's processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.made_up_runs import WriteRun, run_writer


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Writes a run directory below tmp_path/outputs as a small-scale sweep would."""
    return run_writer(tmp_path / "outputs")
