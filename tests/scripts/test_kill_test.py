"""scripts/kill_test.py with programs that hang, or say more than a pipe holds."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts import kill_test
from tests.support.commands import SOON, until

LOUD = "print('x' * 200_000, flush=True)"  # more than a pipe holds
CHILD = (
    "import subprocess; child = subprocess.Popen(['sleep', '600']); print(child.pid, flush=True)"
)
WAIT = "import time; time.sleep(600)"
WRITE = "(run / 'metrics.jsonl').write_text('{}')"


class Program:
    """A layout whose command is a few lines of Python; `run` is its run directory."""

    processes = 1

    def __init__(self, *lines: str) -> None:
        self.lines = lines

    def command(self, run_dir: Path, extra: list[str]) -> list[str]:
        begin = f"import pathlib; run = pathlib.Path({str(run_dir)!r}); run.mkdir(exist_ok=True)"
        return [sys.executable, "-c", "\n".join([begin, *self.lines])]

    def __str__(self) -> str:
        return "a program"


def strike(program: Any, run_dir: Path) -> str | None:
    return kill_test.strike(program, run_dir, random.Random(0), 0.01, [])


@pytest.mark.slow
@pytest.mark.parametrize("way", ["finish", "strike"])
def test_a_command_that_hangs_is_killed_with_its_children_and_said_to_hang(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kill_test, "LONGEST_S", 2)
    program: Any = Program(CHILD, WAIT)
    run_dir = tmp_path / "run"
    with pytest.raises(SystemExit, match=r"a program: hangs: it .+ after 2 s") as left:
        kill_test.finish(program, run_dir, []) if way == "finish" else strike(program, run_dir)
    child = int(str(left.value).splitlines()[1])  # what it had said
    until(lambda: not kill_test.alive(child), SOON)


def test_a_command_that_says_much_comes_to_its_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kill_test, "LONGEST_S", 20)
    hit = strike(Program(LOUD, WRITE, WAIT), tmp_path / "run")
    assert hit is not None and hit.endswith("within an iteration")


def test_a_command_that_fails_is_quoted(tmp_path: Path) -> None:
    program: Any = Program("raise SystemExit('no room')")
    with pytest.raises(SystemExit, match=r"a program: exit code 1\nno room"):
        kill_test.finish(program, tmp_path / "run", [])
