"""Equality of formulas by math-verify, in a child process (comparer.py).

The library may need hours or all memory for the formulas of a model, and its own time limit is a
signal that reaches only main threads, and none that is busy with one large power. A process can be
ended.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock

from cory import distributed
from cory.tasks.answers import calculable, plain_formula

COMPARER = Path(__file__).with_name("comparer.py")
MEMORY = 1024  # MiB of address space; the libraries take a fifth of it
LONGEST = 500  # characters; longer formulas, of models that repeat themselves, are not compared
ENDED_ITSELF = (-signal.SIGPROF, -signal.SIGSEGV, -signal.SIGABRT)  # out of time, or of stack


@dataclass(frozen=True, eq=False)
class Answer:
    """A formula as an answer: equal to mathematically equal ones, all with the same hash."""

    text: str
    equality: Equality

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Answer) and self.equality(self.text, other.text)

    def __hash__(self) -> int:
        return 0  # equal formulas may share no text that could be hashed

    def __str__(self) -> str:
        return self.text


@dataclass(eq=False)
class Equality:
    """Compares formulas, each pair once; thread-safe."""

    seconds: int  # of processor time for a comparison
    cache: dict[tuple[str, str], bool] = field(default_factory=dict)
    child: subprocess.Popen[str] | None = None
    lock: Lock = field(default_factory=Lock)

    def __call__(self, one: str, other: str) -> bool:
        """Whether the formulas are equal; those that take too long to compare are not."""
        if plain_formula(one) == plain_formula(other):
            return True
        if max(len(one), len(other)) > LONGEST:
            return False
        first, second = sorted((calculable(one), calculable(other)))
        with self.lock:
            if (first, second) not in self.cache:
                self.cache[first, second] = self._compare(first, second)
            return self.cache[first, second]

    def close(self) -> None:
        """Ends the child process."""
        if self.child is not None:
            self.child.communicate()  # closes its input, at which it ends
            self.child = None

    def _compare(self, one: str, other: str) -> bool:
        if self.child is not None and self.child.poll() is not None:
            self.child = None  # it was ended while it waited
        child = self.child = self.child or self._start()
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(json.dumps([one, other]) + "\n")
        child.stdin.flush()
        if line := child.stdout.readline():
            return bool(json.loads(line))
        self.child = None
        code = child.wait()
        if code < 0 and code not in ENDED_ITSELF:
            raise RuntimeError(f"task=math: the process that compares was ended by signal {-code}")
        why = "in time" if code == -signal.SIGPROF else "by math-verify, which fails"
        distributed.note(
            f"task.seconds={self.seconds}: '{one[:40]}' and '{other[:40]}' cannot be compared "
            f"{why}; they count as different"
        )
        return False

    def _start(self) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, str(COMPARER), str(self.seconds), str(MEMORY * 2**20)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            # a fixed order of sets; no imports of files beside comparer.py
            env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONSAFEPATH": "1"},
            start_new_session=True,  # Ctrl-C must reach the run only, which ends the child itself
        )
        assert child.stdout is not None
        if not child.stdout.readline():
            raise RuntimeError(f"task=math: {COMPARER.name} ended with code {child.wait()}")
        return child


@cache
def equality(seconds: int) -> Equality:
    """The comparison with this limit, shared by all tasks of a process."""
    comparison = Equality(seconds)
    atexit.register(comparison.close)
    return comparison
