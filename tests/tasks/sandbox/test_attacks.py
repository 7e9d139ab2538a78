"""Programs that try to get out of the sandbox, or to forge their result."""

from __future__ import annotations

from pathlib import Path

import pytest

from cory.tasks.sandbox import process
from cory.tasks.sandbox.process import answer_of, run_program
from tests.tasks.sandbox.test_process import CONFIG, solution

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
def writer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
