"""Starting the workers of a run, and stopping them when the command is asked to stop."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO

from cory.config import HardwareConfig
from cory.runs.run_dir import RECORD, STOP
from cory.runtime.watchdog import PARENT, REFUSED, STOPPED, ending

# environment: a file that appears when the command is asked to stop, and holds the signal's number;
# the jobs of a sweep that run in parallel, each in a process of its own, look at it too
COMMAND_STOP = "CORY_STOP"
SIGNALS = (signal.SIGTERM, signal.SIGINT)
INTERVAL = 0.1  # seconds between two looks

_received: list[int] = []


class JobFailed(Exception):
    """A run that did not finish; why has been said."""


@contextmanager
def stoppable() -> Iterator[None]:
    """While this lasts, the first Ctrl-C or SIGTERM asks, and the second interrupts."""
    before = [signal.getsignal(number) for number in SIGNALS]
    with tempfile.TemporaryDirectory(prefix="cory_") as folder:
        os.environ[COMMAND_STOP] = f"{folder}/stop"
        _received.clear()
        listen()
        try:
            yield
        finally:
            for number, handler in zip(SIGNALS, before, strict=True):
                signal.signal(number, handler)


def listen() -> None:
    """Take Ctrl-C and SIGTERM as requests to stop, in this process."""
    for number in SIGNALS:
        signal.signal(number, _on_signal)


def _on_signal(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    if len(_received) > 1:
        raise KeyboardInterrupt
    ask_to_stop(number)


def ask_to_stop(number: int) -> None:
    """From now on no job of this command begins, and those that run save and leave."""
    Path(os.environ[COMMAND_STOP]).write_text(str(number), encoding="utf-8")


def stopping() -> bool:
    """Whether this command, or the one whose job this is, is asked to stop."""
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid != os.getppid():
        return True  # a parallel job whose sweep was killed
    return Path(os.environ[COMMAND_STOP]).exists()


def stop_code() -> int | None:
    """The command's exit code when it was asked to stop: 128 and the signal, as shells count."""
    if not stopping():
        return None
    return 128 + int(Path(os.environ[COMMAND_STOP]).read_text(encoding="utf-8"))


def launch(run_dir: Path, hardware: HardwareConfig, lock: IO[str] | None) -> bool:
    """Run the workers in processes of their own; whether they finished the run.

    lock: of the run directory; the workers hold it, too, should this process be killed
    """
    module = "cory.runtime.worker" if hardware.world == 1 else "cory.runtime.torchrun"
    request = run_dir / STOP
    request.unlink(missing_ok=True)
    # in a session of its own: Ctrl-C reaches this process only, which then asks the workers
    process = subprocess.Popen(
        [sys.executable, "-m", module, str(run_dir)],
        env=environment(hardware),
        start_new_session=True,
        pass_fds=[] if lock is None else [lock.fileno()],
    )
    asked = False
    try:
        while (code := process.poll()) is None:
            if stopping() and not asked:
                print(
                    f"stopping: the run in {run_dir} saves and leaves "
                    f"(a second Ctrl-C ends it at once)",
                    file=sys.stderr,
                )
                request.touch()
                asked = True
            time.sleep(INTERVAL)
    except BaseException:  # a second Ctrl-C: at once; the workers see what started them go
        process.kill()
        process.wait()
        say_interrupted(run_dir)
        raise
    finally:
        request.unlink(missing_ok=True)
    if (run_dir / RECORD).exists():
        return True  # the record decides: a process may die after its work
    if code == 0 and hardware.nodes > 1:
        return True  # the record of another node may take a while to be seen here
    if code in (STOPPED, -signal.SIGTERM):
        if not stopping():
            ask_to_stop(signal.SIGTERM)  # sent to the workers themselves, or on another node
        say_interrupted(run_dir)
    elif code != REFUSED:
        print(f"error: the worker of {run_dir} {ending(code)}", file=sys.stderr)
    return False


def say_interrupted(run_dir: Path) -> None:
    print(
        f"interrupted; the run in {run_dir} is unfinished; the same command goes on with it",
        file=sys.stderr,
    )


def environment(hardware: HardwareConfig) -> dict[str, str]:
    """The workers' environment."""
    unless_chosen = {}
    if hardware.processes > 1:
        # more threads than cores, each of them waiting in a spin, slow down all processes
        unless_chosen["OMP_NUM_THREADS"] = str(max(1, cores() // hardware.processes))
    if hardware.world > 1:
        unless_chosen["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # no warnings while nodes await each other
    # told which device it is, DeepSpeed does not guess and warn
    always = {PARENT: str(os.getpid()), "DS_ACCELERATOR": hardware.device}
    return {**unless_chosen, **os.environ, **always}


def cores() -> int:
    """Processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
