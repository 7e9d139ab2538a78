"""Scripts start and say how they are used; the page of settings; mistakes in steps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.settings import PAGE, page
from scripts.step_documents import (
    worked,
)
from tests.support.commands import ROOT, Command

# in environments of their own; and what is imported by another
ELSEWHERE = {"golden", "golden_estimators", "computed", "collaboration_game", "skills", "peers"}
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


def test_the_page_is_what_the_script_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
    assert max(map(len, page().splitlines())) <= 120


def test_every_setting_is_explained_where_it_is_first_given() -> None:
    """But for those whose choices say it all."""
    unexplained = re.findall(r"^\| `([\w.]+)` .+\|  \|$", page(), re.MULTILINE)
    assert set(unexplained) == {"evaluation.split"}


def test_later_steps_go_on_from_a_mistake() -> None:
    wrong = {"4 * 6": 34, "41 - 9": 30}
    said = worked("4 * 6 = 24. 7 + 24 = 31. 31 - 9 = 22.", lambda step, true: wrong.get(step, true))
    assert said == "4 * 6 = 34. 7 + 34 = 41. 41 - 9 = 30."
    shared = worked(
        "17 - 5 = 12 stamps to share. 12 / 2 = 6.",
        lambda step, true: 15 if step == "17 - 5" else true,
    )
    assert shared == "17 - 5 = 15 stamps to share. 15 / 2 = 7."
