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
# one process, which imports once for all of them
START = """
import runpy, sys
folder, *names = sys.argv[1:]
sys.path[0] = folder
for name in names:
    sys.argv = [f"{name}.py", "--help"]
    try:
        runpy.run_path(f"{folder}/{name}.py", run_name="__main__")
    except SystemExit as left:
        assert left.code == 0, name
"""


@pytest.mark.slow
def test_scripts_start_as_programs(tmp_path: Path) -> None:
    command = Command(tmp_path, ["-c", START, str(ROOT / "scripts"), *SCRIPTS])
    assert command.wait() == 0, command.err
    for script in SCRIPTS:
        assert f"usage: {script}.py [-h]" in command.out
