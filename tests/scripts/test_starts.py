"""Every script starts as a program and says how it is used; the tests elsewhere run it in forks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import ROOT, Command

# in environments of their own
ELSEWHERE = {"golden", "golden_estimators"}
SCRIPTS = sorted(
    path.stem for path in (ROOT / "scripts").glob("*.py") if path.stem not in ELSEWHERE
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_starts_as_a_program(script: str, tmp_path: Path) -> None:
    command = Command(tmp_path, [str(ROOT / "scripts" / f"{script}.py"), "--help"])
    assert command.wait() == 0, command.err
    assert command.out.startswith(f"usage: {script}.py [-h]")
