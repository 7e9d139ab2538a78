"""Untrusted programs: allowed actions, and the result of each forbidden one."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cory.tasks.sandbox import process
from cory.tasks.sandbox.process import GUARD, Limits, ProgramResult, program_results, run_program

LIMITS = Limits(seconds=1, memory=128)


def solution(body: str) -> str:
    return "def solve():\n" + "".join(f"    {line}\n" for line in body.splitlines())


def outcome(program: str, folder: Path, limits: Limits = LIMITS) -> ProgramResult:
    folder.mkdir(exist_ok=True)
    found = run_program(program, "solve", limits, str(folder))
    assert list(folder.iterdir()) == []
    return found


@pytest.mark.parametrize(
    ("program", "number"),
    [
        (solution('"""Tom has ½ of 24 cats."""\ncats = 3 * 4\nreturn cats'), "12"),
        ("import math\n" + solution("return math.ceil(7 / 2) - 9"), "-5"),
        (solution("from fractions import Fraction\nreturn int(Fraction(3, 2) * 4)"), "6"),
        ("from datetime import date\n" + solution("return (date(20, 3, 1) - date(20, 2, 1)).days"),
         "29"),
        (solution("return 3 * 0.1"), "0.30000000000000004"),
        # what is printed is nowhere to be seen
        (solution("print('value 5')\nimport sys\nsys.stdout.flush()\nreturn 7"), "7"),
        ("if __name__ == '__main__': raise KeyError\n" + solution("return 10**17"), "1" + 17 * "0"),
    ],
)  # fmt: skip
def test_a_number_is_returned(program: str, number: str, tmp_path: Path) -> None:
    assert outcome(program, tmp_path) == ProgramResult("value", number)


@pytest.mark.parametrize(
    ("body", "word", "detail"),
    [
        ("while True: pass", "out_of_time", ""),
        ("x = 'a'\nwhile True: x += x", "out_of_memory", ""),
        ("open('/etc/hostname').read()\nreturn 1", "refused", "open"),
        ("open('mine', 'w').write('x')\nreturn 1", "refused", "open"),
        ("import io\nio.FileIO('/etc/hostname')\nreturn 1", "refused", "open"),
        # nor may it go on as if nothing had happened
        ("try:\n    open('mine', 'w')\nexcept BaseException:\n    return 1", "refused", "open"),
        ("import socket\nreturn 1", "refused", "socket"),
        ("import subprocess\nreturn 1", "refused", "subprocess"),
        ("import os\nos.system('true')\nreturn 1", "refused", "os"),
        ("import ctypes\nreturn 1", "refused", "ctypes"),
        ("import random\nreturn random.random()", "refused", "random"),
        ("input()\nreturn 1", "refused", "builtins.input"),
        ("return solve.__code__.co_argcount", "refused", "object.__getattr__"),
        ("import sys\nsys.exit(0)", "raised", "SystemExit"),
        ("return 1 / 0", "raised", "ZeroDivisionError"),
        ("return solve()", "raised", "RecursionError"),
        ("return 'twelve'", "no_number", "str"),
        ("return True", "no_number", "bool"),
        ("print(12)", "no_number", "NoneType"),
        ("return 10**5000", "too_large", ""),
        ("return -(10**18)", "too_large", ""),
        ("return float('inf') - float('inf')", "too_large", ""),
    ],
)  # fmt: skip
def test_everything_else_ends_with_a_reason(
    body: str, word: str, detail: str, tmp_path: Path
) -> None:
    assert outcome(solution(body), tmp_path) == ProgramResult(word, detail)


BEYOND_THE_HOOK = """
import os, runpy, tempfile
file = open("mine", "w")
limit = runpy.run_path(GUARD)["limit"]
if os.geteuid() == 0:
    os.setuid(65534)  # a superuser may start as many processes as he likes
limit(1, 5, 128 * 2**20)
for attempt in (
    lambda: open("/etc/hostname"),
    lambda: (file.write("x"), file.flush()),
    lambda: os.fork() or os._exit(0),
    lambda: bytearray(10**9),
):
    try:
        attempt()
        print("done")
    except (OSError, MemoryError) as error:
        print(type(error).__name__)
os.close(file.fileno())
"""


def test_the_kernel_watches_where_the_hook_does_not(tmp_path: Path) -> None:
    program = BEYOND_THE_HOOK.replace("GUARD", repr(str(GUARD)))
    answer = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    said = ["OSError", "OSError", "BlockingIOError", "MemoryError"]
    assert answer.stdout.split() == said, answer.stderr
    assert (tmp_path / "mine").read_text() == ""


@pytest.mark.slow
def test_a_program_that_waits_is_ended(tmp_path: Path) -> None:
    """Waiting takes no processor time; a lock that is never released needs no refused import."""
    start = time.monotonic()
    waits = solution(
        "import _thread\nlock = _thread.allocate_lock()\nlock.acquire()\nlock.acquire()"
    )
    assert outcome(waits, tmp_path) == ProgramResult("out_of_time", "")
    assert 4 < time.monotonic() - start < 9


def test_programs_see_no_environment_and_none_of_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    programs = [
        solution("import sys\nreturn sum('somewhere' in p or 'tasks' in p for p in sys.path)"),
        "import math\nmath.pi = 3\n" + solution("return int(math.pi)"),
        "import math\n" + solution("return math.pi"),
    ]
    found = list(program_results(programs, "solve", LIMITS))
    assert [o.detail for o in found] == ["0", "3", "3.141592653589793"]


def test_outcomes_come_in_order_and_leave_nothing(tmp_path: Path) -> None:
    programs = [solution(f"return sum(range({n * 10_000}))") for n in range(12, 0, -1)]
    before = threading.active_count()
    found = program_results(programs, "solve", LIMITS)
    sums = [int(outcome.detail) for outcome in found]
    assert sums == [sum(range(n * 10_000)) for n in range(12, 0, -1)]
    assert threading.active_count() == before


def test_stopping_half_way_runs_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    monkeypatch.setattr(
        process, "run_program", lambda program, *_: started.append(program) or time.sleep(0.05)
    )
    found = program_results(["a program"] * 200, "solve", LIMITS)
    next(found)
    found.close()  # type: ignore[attr-defined]  # a generator
    time.sleep(0.2)
    assert 1 <= len(started) < 100
