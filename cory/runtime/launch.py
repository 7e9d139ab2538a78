"""Runs a run: in this process, over several that torch starts, or in a process of its own.

A run with one process works in the command itself. Each job of a sweep gets a process, since
DeepSpeed can be started once in a process; and so does each process of a run with several.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cory.config import HardwareConfig, cores
from cory.runs.signals import PARENT, ask_to_stop, interruptible, saves, stopping

# exit codes of the processes of a run
FINISHED = 0
REFUSED = 1  # failed, with the reason printed
STOPPED = 75  # saved and left on request ("try again later" among Unix's exit codes)

INTERVAL_S = 0.1  # between two looks at a process
WATCH_S = 0.5  # between two looks at a parent

_worked: list[Path] = []  # run directories of runs that worked in this process


class JobFailed(Exception):
    """A run that failed or was stopped; the reason has been printed."""


def launch(run_dir: Path, hardware: HardwareConfig, apart: bool = False) -> bool:
    """Run what `run_dir` has the settings of; whether the run is finished.

    apart: in a process of its own
    """
    with environment(hardware):
        try:
            code = _start(run_dir, hardware, apart)
        except KeyboardInterrupt:  # before there was anything to save
            code = STOPPED
    if code == STOPPED:
        if not stopping():  # another node was asked
            ask_to_stop(signal.SIGTERM)
        print(
            f"interrupted; the run in {run_dir} is unfinished; the same command goes on with it",
            file=sys.stderr,
        )
    return code == FINISHED


def _start(run_dir: Path, hardware: HardwareConfig, apart: bool) -> int:
    """The exit code of a run, wherever it works."""
    if hardware.world > 1:
        from cory.runtime.processes import run_workers  # noqa: PLC0415  torch takes a second

        return run_workers(run_dir, hardware)
    if apart:
        return _run_apart(run_dir)
    _worked.append(run_dir)
    with interruptible():
        from cory.runtime.worker import attempt  # noqa: PLC0415  torch and all that builds on it

        if stopping():  # a library has caught the interrupt while it was imported
            raise KeyboardInterrupt
        return attempt(run_dir)


def _run_apart(run_dir: Path) -> int:
    """The exit code of a run in a process of its own."""
    # in a new session: Ctrl-C reaches this process only; the other one sees that it was asked
    process = subprocess.Popen(
        [sys.executable, "-m", "cory.runtime.worker", str(run_dir)],
        env={**os.environ, PARENT: str(os.getpid())},
        start_new_session=True,
    )
    while (code := process.poll()) is None:
        time.sleep(INTERVAL_S)
    if code < 0 and not stopping():  # nothing has said why
        print(f"error: the process of {run_dir} {ending(code)}", file=sys.stderr)
    return code


@contextmanager
def environment(hardware: HardwareConfig) -> Iterator[None]:
    """Within it are the variables that torch and DeepSpeed read when they are imported."""
    # threads that wait for each other sleep: where others need the cores, waiting in a busy loop
    # made an iteration take 1.7 times as long; on an idle machine no difference was seen
    unless_chosen = {"OMP_WAIT_POLICY": "PASSIVE"}
    if hardware.processes > 1:
        # more threads than cores would slow down all processes
        unless_chosen["OMP_NUM_THREADS"] = str(max(1, cores() // hardware.processes))
    if hardware.world > 1:
        unless_chosen["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # no warnings while nodes await each other
    before = dict(os.environ)
    # the device is named, so that DeepSpeed does not guess it and warn
    os.environ.update({**unless_chosen, **before, "DS_ACCELERATOR": hardware.device})
    try:
        yield
    finally:
        os.environ.update(before)
        for name in os.environ.keys() - before.keys():
            del os.environ[name]


def end_with_parent(building: bool = False) -> None:
    """End this process soon after the one that started it, also where that one was killed.

    building: also where the command is asked to stop before this process has anything to save
    """
    parent = int(os.environ.get(PARENT, os.getppid()))

    def watch() -> None:
        while os.getppid() == parent:  # a process whose parent ends gets another parent
            time.sleep(WATCH_S)
            if building and stopping() and not saves():
                os._exit(STOPPED)
        os._exit(REFUSED)  # other threads may wait for a process that is gone, too

    threading.Thread(target=watch, name="parent", daemon=True).start()


def ending(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    hint = ": killed by hand, or memory ran out" if code == -signal.SIGKILL else ""
    return f"was ended by {signal.Signals(-code).name}{hint}"


def refuse_launchers() -> None:
    """The processes of a run are started here; torchrun around the command starts too many."""
    if "RANK" in os.environ or any(re.match("--local[-_]rank", word) for word in sys.argv[1:]):
        sys.exit(
            "error: cory.train starts its own workers, without torchrun, deepspeed or another "
            "launcher: hardware.processes says how many"
        )


def end_of_command() -> None:
    """End this process where a run has worked in it: to take torch apart would take a second."""
    if _worked:
        leave(FINISHED)


def leave(code: int) -> None:
    """End this process; threads of the process group may abort a normal exit."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
