"""Programs that try to get out of the sandbox, or to forge their result."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cory.tasks.sandbox import process
from cory.tasks.sandbox.guard import EMPTIED, NOBODY
from cory.tasks.sandbox.process import (
    FORGED,
    LONGEST,
    Limits,
    ProgramResult,
    answer_of,
    checked,
    run_program,
)

LIMITS = Limits(seconds=1, memory=128)
BY_IMPORTLIB = "import sys\nsystem = sys.modules['_frozen_importlib_external']._os\n"
# a module that refers to the system's calls, as `system`
WAYS = {
    "importlib": BY_IMPORTLIB,
    "a path's module": "import statistics, sys\nsystem = sys.modules['posixpath'].os\n",
    "statistics": "import statistics\nsystem = statistics.random._os\n",
    "subclasses": (
        "import statistics\n"
        "own = [c for c in object.__subclasses__() if c.__name__ == '_wrap_close'][0]\n"
        "class system: pass\n"
        "vars(system) and [setattr(system, k, v) for k, v in own.__init__.__globals__.items()]\n"
    ),
    "a new module": (
        "import sys\nimp = sys.modules['_imp']\n"
        "class Spec: name = 'posix'; origin = 'built-in'; loader = parent = None\n"
        "system = imp.create_builtin(Spec)\nimp.exec_builtin(system)\n"
    ),
    "a loader": "import sys\nsystem = sys.modules['_frozen_importlib'].BuiltinImporter"
    ".load_module('posix')\n",
}
DEEDS = {
    "fifo": "system.mkfifo('FOLDER/made')",
    "node": "system.mknod('FOLDER/made')",
    "stat": "system.stat('/etc/hostname')",
    "priority": "system.setpriority(system.PRIO_PROCESS, system.getppid(), 7)",
}


def result_of(program: str, folder: Path) -> ProgramResult:
    return run_program(program, "solve", LIMITS, str(folder))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("deed", DEEDS)
def test_calls_of_the_system_cannot_be_reached(way: str, deed: str, tmp_path: Path) -> None:
    """Whatever a program does before, it gets no further than the call."""
    tmp_path.chmod(0o777)
    before = os.getpriority(os.PRIO_PROCESS, 0)
    body = WAYS[way] + DEEDS[deed].replace("FOLDER", str(tmp_path))
    program = "def solve():\n" + "".join(f"    {line}\n" for line in body.splitlines())
    found = result_of(program + "    return 7\n", tmp_path)
    assert found.word in ("raised", "refused"), found
    assert list(tmp_path.iterdir()) == []
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_the_alarm_cannot_be_stopped(tmp_path: Path) -> None:
    program = "import sys\ndef solve():\n    sys.modules['_signal'].alarm(0)\n    return 7\n"
    assert result_of(program, tmp_path).word == "raised"
    assert {"posix", "_imp", "_signal"} <= {*EMPTIED}


def test_what_programs_may_import_works_without_the_emptied_modules(tmp_path: Path) -> None:
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
    assert result_of(program, tmp_path) == ProgramResult("value", str(9 + 29 + 4 + 6))


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whose programs become nobody's")
def test_a_superusers_program_is_nobodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen from outside, while it runs."""
    children = []
    start = subprocess.Popen
    monkeypatch.setattr(
        subprocess,
        "Popen",
        lambda *args, **more: children.append(start(*args, **more)) or children[0],
    )
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(result_of, "while True: pass", tmp_path)
        seen = set()
        while not waiting.done():
            with contextlib.suppress(OSError, IndexError):
                status = Path(f"/proc/{children[0].pid}/status").read_text()
                seen |= {
                    tuple(line.split()[1:])
                    for line in status.splitlines()
                    if line.startswith(("Uid", "Gid", "Groups"))
                }
            time.sleep(0.05)
    assert waiting.result().word == "out_of_time"
    assert (str(NOBODY),) * 4 in seen and () in seen


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """In place of the guard: a program that has got at the channel of its result."""
    script = tmp_path / "guard.py"
    script.write_text("import sys\nexec(sys.stdin.read())\n")
    monkeypatch.setattr(process, "GUARD", script)
    return tmp_path


FORGERIES = [
    ("value abc", ProgramResult(FORGED, "")),
    ("value 1E99999999", ProgramResult(FORGED, "")),
    ("value 1e99", ProgramResult(FORGED, "")),
    ("value 1e+99", ProgramResult(FORGED, "")),
    ("value nan", ProgramResult(FORGED, "")),
    ("value 12 ", ProgramResult(FORGED, "")),
    ("value 1_000", ProgramResult(FORGED, "")),
    ("value " + "1" * 190, ProgramResult(FORGED, "")),
    ("value", ProgramResult(FORGED, "")),
    ("\x1b[2J", ProgramResult(FORGED, "")),
    ("refused " + "x" * 41, ProgramResult(FORGED, "")),
    ("refused \x1b[2J", ProgramResult(FORGED, "")),
    # equal to one that it might have returned
    ("value 12", ProgramResult("value", "12")),
    ("value -1e+17", ProgramResult("value", "-1e+17")),
    ("value 1.5e-07", ProgramResult("value", "1.5e-07")),
]


@pytest.mark.parametrize(("text", "expected"), FORGERIES)
def test_a_forged_result_is_a_wrong_answer(
    text: str, expected: ProgramResult, writer: Path
) -> None:
    word, _, detail = text.partition(" ")
    assert checked(word, detail) == expected
    found = result_of(f"sys.stdout.write({text!r})", writer)
    assert found == expected
    assert expected.word != FORGED or answer_of(found) is None


@pytest.mark.parametrize("name", ["int", "float", "type", "abs"])
def test_a_number_cannot_be_played(name: str, tmp_path: Path) -> None:
    """Another class in the place of `int` would be asked how it is printed."""
    program = """
import builtins
class Played:
    def __new__(cls, value=0): return object.__new__(cls)
    def __ne__(self, other): return False
    def __ge__(self, other): return False
    def __abs__(self): return self
    def __repr__(self): return "12 of a kind"
def solve():
    builtins.NAME = (lambda value: Played) if "NAME" == "type" else Played
    return Played()
""".replace("NAME", name)
    assert result_of(program, tmp_path) == ProgramResult("no_number", "Played")


def test_every_float_that_a_program_can_return_is_genuine() -> None:
    for value in (0.1, 1e-7, 1e16, 1.5e17, -2.5, 5e-324, 1.7976931348623157e-300, 123456.789, 0.0):
        assert checked("value", repr(value)) == ProgramResult("value", repr(value))
        answer_of(checked("value", repr(value)))


@pytest.mark.slow
def test_a_program_that_writes_on_and_on_is_ended(
    writer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing beyond the longest result is read: memory does not grow by what is written."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.monotonic()
    assert result_of("while True: sys.stdout.write('1' * 2**20)", writer) == ProgramResult(
        FORGED, ""
    )
    assert time.monotonic() - start < 3
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024
    # one that closes its channel and goes on
    program = "import os, time\nos.write(1, b'value 5'); os.close(1)\ntime.sleep(60)"
    monkeypatch.setattr(process, "LATE", -4.0)
    start = time.monotonic()
    assert result_of(program, writer).word == "out_of_time"
    assert time.monotonic() - start < 3
    assert LONGEST == 200
