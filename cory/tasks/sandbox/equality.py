"""Equality of formulas by math-verify, in a child process (comparer.py).

The library may need hours or all memory for the formulas of a model, and its own time limit is a
signal that reaches only main threads, and none that is busy with one large power. A process can be
ended.
"""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cory import distributed
from cory.tasks.answers import calculable, plain_formula

COMPARER = Path(__file__).with_name("comparer.py")
MEMORY = 1024  # MiB of address space; the libraries take a fifth of it
ENDED_ITSELF = (-signal.SIGPROF, -signal.SIGSEGV, -signal.SIGABRT)  # out of time, or of stack
LONGEST = 500  # characters; longer formulas, of models that repeat themselves, are not compared


@dataclass(frozen=True, eq=False)
class Answer:
    """A formula as an answer: equal to mathematically equal ones, all with the same hash."""

    text: str
    seconds: int  # of processor time for a comparison

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Answer) and equal(self.text, other.text, self.seconds)

    def __hash__(self) -> int:
        return 0  # equal formulas may share no text that could be hashed

    def __str__(self) -> str:
        return self.text


def equal(one: str, other: str, seconds: int) -> bool:
    """Whether the formulas are equal; those that take too long to compare are not."""
    if plain_formula(one) == plain_formula(other):
        return True
    if max(len(one), len(other)) > LONGEST:
        return False
    return compared(*sorted((calculable(one), calculable(other))), seconds)


@cache
def compared(one: str, other: str, seconds: int) -> bool:
    """What the child process says; of two that cannot be compared False, with a note."""
    child = comparer(seconds)
    assert child.stdin is not None and child.stdout is not None
    print(json.dumps([one, other]), file=child.stdin, flush=True)
    if line := child.stdout.readline():
        return bool(json.loads(line))
    comparer.cache_clear()
    if (code := child.wait()) not in ENDED_ITSELF:
        raise RuntimeError(f"task.answers=formula: {COMPARER.name} ended with code {code}")
    distributed.note(
        f"task.seconds={seconds}: '{one[:40]}' and '{other[:40]}' cannot be compared; they count "
        f"as different"
    )
    return False


@cache
def comparer(seconds: int) -> subprocess.Popen[str]:
    """The child process with this limit; it ends with this one, at the end of its input."""
    return subprocess.Popen(
        [sys.executable, str(COMPARER), str(seconds), str(MEMORY * 2**20)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        # a fixed order of sets; no imports of files beside comparer.py
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONSAFEPATH": "1"},
        start_new_session=True,  # Ctrl-C must reach the run only
    )
