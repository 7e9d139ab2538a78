"""Scripts as programs: each starts, says how it is used, and refuses options in a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.benchmark import table
from tests.support.commands import ROOT, Command

# in environments of their own; and what is imported by another
ELSEWHERE = {"golden", "golden_estimators", "computed", "collaboration_game", "skills"}
SCRIPTS = sorted({path.stem for path in (ROOT / "scripts").glob("*.py")} - ELSEWHERE)
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


def test_a_ratio_is_the_median_of_rounds() -> None:
    seconds = {"ppo": [1.0, 2.0, 4.0], "cory": [3.0, 5.0, 8.0], "grpo": [1.0, 1.0, 1.0]}
    assert table(seconds).splitlines()[2:] == [
        "| ppo | 2.00 | - | - | - |",
        "| cory | 5.00 | ppo | 2.50 | 2.00 to 3.00 |",
        "| grpo | 1.00 | - | - | - |",
    ]
