"""Scripts as programs: each starts, says how it is used, and refuses options in a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.benchmark import table
from tests.support.commands import ROOT, Command
from tests.support.warm import run_script

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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("kill_test.py --kills 0", "--kills must be at least 1, got 0"),
        ("benchmark.py --iterations 0", "--iterations must be at least 1, got 0"),
        ("benchmark.py --rounds -1", "--rounds must be at least 1, got -1"),
        ("step_documents.py --kinds foo", "invalid choice: 'foo'"),
        ("memory.py nope", "Error parsing override 'nope'"),
        ("benchmarks.py x --device foo", "--device=foo: this machine has none"),
        ("benchmarks.py x --tasks piqa --cot", "--cot and --tasks both choose: type one"),
    ],
)
def test_options_that_cannot_be(words: str, said: str) -> None:
    script, *options = words.split()
    done = run_script(f"scripts/{script}", *options)
    assert done.returncode in (1, 2)
    last = done.stderr.splitlines()[-1]
    assert "error: " in last and said in last
    assert "Traceback" not in done.stderr


def test_a_ratio_is_the_median_of_rounds() -> None:
    seconds = {"ppo": [1.0, 2.0, 4.0], "cory": [3.0, 5.0, 8.0], "grpo": [1.0, 1.0, 1.0]}
    assert table(seconds).splitlines()[2:] == [
        "| ppo | 2.00 | - | - | - |",
        "| cory | 5.00 | ppo | 2.50 | 2.00 to 3.00 |",
        "| grpo | 1.00 | - | - | - |",
    ]


@pytest.mark.slow
def test_a_runner_is_timed_in_a_process_of_its_own() -> None:
    words = ("--rounds", "1", "--iterations", "1", "--only", "ppo")
    done = run_script("scripts/benchmark.py", *words)
    assert done.returncode == 0, done.stderr
    (ppo,) = done.stdout.splitlines()[2:]
    assert ppo.startswith("| ppo | ")
