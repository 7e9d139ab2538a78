"""scripts/benchmark.py: its table, and the runs that it times."""

from __future__ import annotations

import pytest

from scripts.benchmark import table
from tests.support.warm import run_script


def test_a_ratio_is_the_median_of_rounds() -> None:
    seconds = {"ppo": [1.0, 2.0, 4.0], "cory": [3.0, 5.0, 8.0], "grpo": [1.0, 1.0, 1.0]}
    assert table(seconds).splitlines()[2:] == [
        "| ppo | 2.00 | - | - | - |",
        "| cory | 5.00 | ppo | 2.50 | 2.00 to 3.00 |",
        "| grpo | 1.00 | - | - | - |",
    ]


@pytest.mark.slow
def test_each_runner_is_timed_in_a_process_of_its_own() -> None:
    words = ("--rounds", "1", "--iterations", "1", "--only", "ppo", "cory")
    done = run_script("scripts/benchmark.py", *words)
    assert done.returncode == 0, done.stderr
    ppo, cory = done.stdout.splitlines()[2:]
    assert ppo.startswith("| ppo | ") and " | ppo | " in cory
