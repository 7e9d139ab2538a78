"""Whether two formulas are equal, found out by math-verify in a process of its own.

The library may need hours or all memory for what a model writes, and its own limit of time is a
signal that reaches only main threads, and none that is busy with one large power. A process can be
ended; comparer.py is what runs inside.
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
from cory.tasks.answers.formulas import calculable, plain_formula

COMPARER = Path(__file__).with_name("comparer.py")
MEMORY = 1024  # MiB of address space; what the libraries take is a fifth of it
LONGEST = 500  # characters; longer ones, of models that repeat themselves, are not calculated with
ENDED_ITSELF = (-signal.SIGPROF, -signal.SIGSEGV, -signal.SIGABRT)  # out of time, or of stack


@dataclass(frozen=True, eq=False)
class Answer:
    """A formula as an answer: equal to another that says the same, and alike under any hash."""

    text: str
    equality: Equality

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Answer) and self.equality(self.text, other.text)

    def __hash__(self) -> int:
        return 0  # equal formulas may have nothing else in common

    def __str__(self) -> str:
        return self.text


@dataclass(eq=False)
class Equality:
    """Compares formulas, each pair once; may be called in any thread."""

    seconds: int  # of processor time for a comparison
    known: dict[tuple[str, str], bool] = field(default_factory=dict)
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
            if (first, second) not in self.known:
                self.known[first, second] = self._compare(first, second)
            return self.known[first, second]

    def close(self) -> None:
        """End the process that compares."""
        if self.child is not None:
            self.child.communicate()  # closes its input, at whose end it ends
            self.child = None

    def _compare(self, one: str, other: str) -> bool:
        child = self.child = self.child or self._start()
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(json.dumps([one, other]) + "\n")
        child.stdin.flush()
        if said := child.stdout.readline():
            return bool(json.loads(said))
        self.child = None
        code = child.wait()
        if code < 0 and code not in ENDED_ITSELF:
            raise RuntimeError(f"task=math: the process that compares was ended by signal {-code}")
        if distributed.rank() == 0:
            print(
                f"note: task.seconds={self.seconds}: '{one[:40]}' and '{other[:40]}' cannot be "
                f"compared in time; they count as different",
                file=sys.stderr,
            )
        return False

    def _start(self) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, str(COMPARER), str(self.seconds), str(MEMORY * 2**20)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            # the order of sets is that of hashes; names of files beside comparer.py mean nothing
            env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONSAFEPATH": "1"},
            start_new_session=True,  # Ctrl-C is for the run, which may want to end in order
        )
        assert child.stdout is not None
        if not child.stdout.readline():
            raise RuntimeError(f"task=math: {COMPARER.name} ended with code {child.wait()}")
        return child


@cache
def equality(seconds: int) -> Equality:
    """One for all tasks of a process that ask for the same limit."""
    made = Equality(seconds)
    atexit.register(made.close)
    return made
