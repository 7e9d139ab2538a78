"""Runs untrusted programs, each in a restricted interpreter of its own (guard.py).

docs/running.md lists what this prevents, and what it does not.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cory.config import require

GUARD = Path(__file__).with_name("guard.py")
WALL = 5  # seconds of wall time per second of processor time; other work may slow a program down
LATE = 5.0  # further seconds after which an interpreter that did not end itself is killed
OUT_OF_TIME, CRASHED = "out_of_time", "crashed"
TIMERS = (signal.SIGXCPU, signal.SIGALRM, signal.SIGKILL)


@dataclass(frozen=True)
class Limits:
    """Resource limits of one program."""

    seconds: int  # of processor time
    memory: int  # MiB of address space, about 20 of the interpreter included


@dataclass(frozen=True)
class ProgramResult:
    """The number that a program's function returned, or the reason why there is none."""

    word: str  # value | another word of guard.py | out_of_time | crashed
    detail: str  # value: the number, as Python writes it; else a detail of the reason, or nothing


def program_results(
    programs: Sequence[str], function: str, limits: Limits
) -> Iterator[ProgramResult]:
    """The results of the programs in their order; one runs per processor core at a time.

    No action of a program raises an exception here.
    """
    require(
        sys.platform.startswith("linux"),
        f"task.programs: programs are run on Linux only, whose kernel limits them; "
        f"this is {sys.platform}",
    )
    with tempfile.TemporaryDirectory(prefix="cory-") as folder:
        pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
        try:
            yield from pool.map(
                lambda program: run_program(program, function, limits, folder), programs
            )
        finally:
            pool.shutdown(cancel_futures=True)


def run_program(program: str, function: str, limits: Limits, folder: str) -> ProgramResult:
    """The result of one program, run in `folder`, which should be empty."""
    wall = WALL * limits.seconds
    numbers = [str(limits.seconds), str(wall), str(limits.memory * 2**20)]
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", str(GUARD), function, *numbers],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={},
        start_new_session=True,  # so that its own children can be killed, too
    )
    try:
        output, _ = child.communicate(program.encode(errors="replace"), timeout=wall + LATE)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        output, _ = child.communicate()
    word, _, detail = output.decode("ascii", "replace").partition(" ")
    if child.returncode == 0 and word:
        return ProgramResult(word, detail)
    return ProgramResult(OUT_OF_TIME if -child.returncode in TIMERS else CRASHED, "")
