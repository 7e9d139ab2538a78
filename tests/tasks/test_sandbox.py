"""Untrusted programs: what they may do, what each forbidden action ends with, and attacks."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cory.config import ProgramsConfig
from cory.tasks.sandbox import process
from cory.tasks.sandbox.guard import NOBODY
from cory.tasks.sandbox.process import GUARD, answer_of, program_results, run_program

CONFIG = ProgramsConfig(
    path="p", question_column="q", code_column="c", function="solve", seconds=1, memory=128
)


def solution(body: str) -> str:
    return "def solve():\n" + "".join(f"    {line}\n" for line in body.splitlines())


@pytest.mark.parametrize(
    ("program", "number"),
    [
        (solution('"""Tom has ½ of 24 cats."""\ncats = 3 * 4\nreturn cats'), "12"),
        (solution("return 3 * 0.1"), "0.30000000000000004"),
        # what is printed is nowhere to be seen
        (solution("print('value 5')\nimport sys\nsys.stdout.flush()\nreturn 7"), "7"),
        ("if __name__ == '__main__': raise KeyError\n" + solution("return 10**17"), "1" + 17 * "0"),
    ],
)  # fmt: skip
def test_a_number_is_returned(program: str, number: str) -> None:
    assert run_program(program, CONFIG) == number


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("while True: pass", "out_of_time"),
        ("x = 'a'\nwhile True: x += x", "raised"),
        ("open('/etc/hostname').read()\nreturn 1", "refused"),
        ("import io\nio.FileIO('/etc/hostname')\nreturn 1", "refused"),
        # nor may it go on as if nothing had happened
        ("try:\n    open('/tmp/mine', 'w')\nexcept BaseException:\n    return 1", "refused"),
        ("import socket\nreturn 1", "refused"),
        ("import random\nreturn random.random()", "refused"),
        ("return solve.__code__.co_argcount", "refused"),
        ("import sys\nsys.exit(0)", "raised"),
        ("return 1 / 0", "raised"),
        ("return 'twelve'", "no_number"),
        ("return True", "no_number"),
        ("return 10**5000", "raised"),
        ("return float('inf') - float('inf')", "crashed"),
    ],
)
def test_everything_else_ends_with_a_reason(body: str, word: str) -> None:
    assert run_program(solution(body), CONFIG) == word


BEYOND_THE_HOOK = """
import os, runpy, tempfile
file = open("mine", "w")
runpy.run_path(GUARD)["confine"](1, 128 * 2**20)
for attempt in (
    lambda: open("/etc/hostname"),
    lambda: (file.write("x" * 300), file.flush()),
    lambda: os.fork() or os._exit(0),
    lambda: bytearray(10**9),
):
    try:
        attempt()
        print("done")
    except (OSError, MemoryError) as error:
        print(type(error).__name__)
os.close(file.fileno())
print(*os.getresuid(), *os.getresgid(), *os.getgroups())
"""


def test_the_kernel_watches_where_the_hook_does_not(tmp_path: Path) -> None:
    program = BEYOND_THE_HOOK.replace("GUARD", repr(str(GUARD)))
    answer = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    said = ["OSError", "OSError", "BlockingIOError", "MemoryError"]
    assert answer.stdout.split()[:4] == said, answer.stderr
    if os.geteuid() == 0:  # a superuser's program is nobody's
        assert answer.stdout.split()[4:] == [str(NOBODY)] * 6
    assert (tmp_path / "mine").stat().st_size == 200


@pytest.mark.slow
def test_a_program_that_waits_is_ended() -> None:
    """Waiting takes no processor time; a lock that is never released needs no refused import."""
    start = time.monotonic()
    waits = solution(
        "import _thread\nlock = _thread.allocate_lock()\nlock.acquire()\nlock.acquire()"
    )
    assert run_program(waits, CONFIG) == "out_of_time"
    assert 4 < time.monotonic() - start < 9


def test_programs_see_no_environment_and_none_of_each_other(monkeypatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    programs = [
        solution("import sys\nreturn sum('somewhere' in p or 'tasks' in p for p in sys.path)"),
        "import math\nmath.pi = 3\n" + solution("return int(math.pi)"),
        "import math\n" + solution("return math.pi"),
    ]
    assert program_results(programs, CONFIG) == ["0", "3", "3.141592653589793"]


# a module that refers to the system's calls, as `system`
WAYS = {
    "importlib": "import sys\nsystem = sys.modules['_frozen_importlib_external']._os\n",
    "a path's module": "import statistics, sys\nsystem = sys.modules['posixpath'].os\n",
    "statistics": "import statistics\nsystem = statistics.random._os\n",
    "a new module": (
        "import sys\nimp = sys.modules['_imp']\n"
        "class Spec: name = 'posix'; origin = 'built-in'; loader = parent = None\n"
        "system = imp.create_builtin(Spec)\nimp.exec_builtin(system)\n"
    ),
    "a loader": "import sys\nsystem = sys.modules['_frozen_importlib'].BuiltinImporter"
    ".load_module('posix')\n",
}


@pytest.mark.parametrize("way", WAYS)
def test_calls_of_the_system_cannot_be_reached(way: str) -> None:
    """Whatever a program does before, it gets no further than the call, of which no hook hears."""
    program = solution(f"{WAYS[way]}system.stat('/etc/hostname')\nreturn 7")
    assert run_program(program, CONFIG) in ("raised", "refused")


def test_what_programs_may_import_works_without_the_emptied_modules() -> None:
    program = """
import bisect, calendar, collections, copy, datetime, decimal, fractions, functools, heapq
import itertools, math, numbers, operator, re, statistics, string, typing
def solve():
    three = collections.Counter("abcaab")["a"]
    day = datetime.date(2024, 2, 29) + datetime.timedelta(days=calendar.monthrange(2024, 2)[1])
    total = statistics.mean([three, copy.copy([4])[0], 5]) + fractions.Fraction("1/2")
    words = re.sub("[aeiou]", "", string.Template("$a").substitute(a="twelve"))
    return int(decimal.Decimal(str(float(total))) * 2) + day.day + len(words) + math.comb(4, 2)
"""
    assert run_program(program, CONFIG) == str(9 + 29 + 4 + 6)


@pytest.fixture
def writer(monkeypatch, tmp_path: Path) -> None:
    """In place of the guard: a program that has got at the channel of its result."""
    script = tmp_path / "guard.py"
    script.write_text("import sys\nexec(sys.stdin.read())\n")
    monkeypatch.setattr(process, "GUARD", script)


FORGERIES = {
    **dict.fromkeys(["abc", "1e99", "nan", "12 ", "1_000", "", "\x1b[2J"], "crashed"),
    **{number: number for number in ("1e+99", "1" * 190)},  # none that is an answer
    # equal to one that it might have returned
    **{number: number for number in ("12", "-1e+17", "1.5e-07", "refused")},
}


@pytest.mark.parametrize("text", FORGERIES)
def test_a_forged_result_is_a_number_or_a_reason(text: str, writer: None) -> None:
    found = run_program(f"sys.stdout.write({text!r})", CONFIG)
    assert found == FORGERIES[text]
    assert (answer_of(found) is not None) == (text in ("12", "-1e+17"))
