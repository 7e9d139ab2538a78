"""Running programs that nobody has read: each in an interpreter of its own, with little to reach.

guard.py is what runs inside. docs/running.md says what this keeps a program from, and what not.
"""

from __future__ import annotations

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
WALL = 5  # seconds of any time for a second of processor time; other work may slow a program down
LATE = 5.0  # seconds after which an interpreter that did not end itself is ended
OUT_OF_TIME, CRASHED = "out_of_time", "crashed"
TIMERS = (signal.SIGXCPU, signal.SIGALRM, signal.SIGKILL)


@dataclass(frozen=True)
class Limits:
    """What one program may use."""

    seconds: int  # of processor time
    memory: int  # MiB of address space, the interpreter's own 20 or so included


@dataclass(frozen=True)
class ProgramResult:
    """What became of a program: the number that its function returned, or the reason for none."""

    word: str  # value | one of guard.py's others | out_of_time | crashed
    detail: str  # value: the number, as Python writes it; else more about the reason, or nothing


def program_results(
    programs: Sequence[str], function: str, limits: Limits
) -> Iterator[ProgramResult]:
    """What each program's function returns, in their order; as many at once as there are cores.

    Nothing of a program's doing raises here.
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
    """Run one program in `folder`, which should be empty."""
    wall = WALL * limits.seconds
    numbers = [str(limits.seconds), str(wall), str(limits.memory * 2**20)]
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", str(GUARD), function, *numbers],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={},
        start_new_session=True,  # so that whatever it may have started ends with it
    )
    try:
        said, _ = child.communicate(program.encode(errors="replace"), timeout=wall + LATE)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        said, _ = child.communicate()
    word, _, detail = said.decode("ascii", "replace").partition(" ")
    if child.returncode == 0 and word:
        return ProgramResult(word, detail)
    return ProgramResult(OUT_OF_TIME if -child.returncode in TIMERS else CRASHED, "")
