"""Starts the workers of a run, and stops them when the command is asked to stop."""

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

# environment variable: path of a file that is made when the command is asked to stop, and holds the
# signal's number; parallel jobs of a sweep, each in its own process, look at it, too
COMMAND_STOP = "CORY_STOP"
SIGNALS = (signal.SIGTERM, signal.SIGINT)
INTERVAL = 0.1  # seconds between two looks

_received: list[int] = []


class JobFailed(Exception):
    """A run that failed or was stopped; the reason has been printed."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Within this context the first Ctrl-C or SIGTERM asks to stop; the second interrupts."""
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
    """Start no more jobs of this command; running ones save and leave."""
    Path(os.environ[COMMAND_STOP]).write_text(str(number), encoding="utf-8")


def stopping() -> bool:
    """Whether this command, or the sweep that this job belongs to, is asked to stop."""
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid != os.getppid():
        return True  # a parallel job of a sweep that was killed
    return Path(os.environ[COMMAND_STOP]).exists()


def stop_code() -> int | None:
    """The command's exit code if it was asked to stop: 128 plus the signal, as in shells."""
    if not stopping():
        return None
    return 128 + int(Path(os.environ[COMMAND_STOP]).read_text(encoding="utf-8"))


def launch(run_dir: Path, hardware: HardwareConfig, lock: IO[str] | None) -> bool:
    """Run the workers in other processes; whether they finished the run.

    lock: of the run directory; the workers inherit it, in case this process is killed
    """
    module = "cory.runtime.worker" if hardware.world == 1 else "cory.runtime.torchrun"
    request = run_dir / STOP
    request.unlink(missing_ok=True)
    # in a new session: Ctrl-C reaches this process only, which then asks the workers to stop
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
    except BaseException:  # a second Ctrl-C: the workers end when their parent is gone
        process.kill()
        process.wait()
        say_interrupted(run_dir)
        raise
    finally:
        request.unlink(missing_ok=True)
    if (run_dir / RECORD).exists():
        return True  # the record decides: a process may fail after its work
    if code == 0 and hardware.nodes > 1:
        return True  # the record, written on another node, may take a while to be visible here
    if code in (STOPPED, -signal.SIGTERM):
        if not stopping():
            ask_to_stop(signal.SIGTERM)  # the workers got it directly, or another node did
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
    """The environment variables of the workers."""
    unless_chosen = {}
    if hardware.processes > 1:
        # more threads than cores, which wait in a busy loop, would slow down all processes
        unless_chosen["OMP_NUM_THREADS"] = str(max(1, cores() // hardware.processes))
    if hardware.world > 1:
        unless_chosen["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # no warnings while nodes await each other
    # named here, so that DeepSpeed does not guess the device and warn
    always = {PARENT: str(os.getpid()), "DS_ACCELERATOR": hardware.device}
    return {**unless_chosen, **os.environ, **always}


def cores() -> int:
    """Number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
