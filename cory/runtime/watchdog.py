"""Ends a process of a run at once when another one is gone, or on request before the loop."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # it imports torch, which takes the command seconds
    from cory.runs.stop import StopRequest

# exit codes of the processes of a run; 0: the run is finished
REFUSED = 1  # failed, with the reason printed
STOPPED = 75  # saved and left on request ("try again later" among Unix's exit codes)
LEFT = 76  # another process is gone; that one, or its parent, prints the reason

PARENT = "CORY_PARENT"  # environment variable: id of the parent process
WORKERS = "CORY_WORKERS"  # environment variable: folder where this machine's workers sign on
INTERVAL = 0.5  # seconds between two checks
FAILED = "failed"  # file in that folder: some worker has printed why the run fails

Check = Callable[[], "int | None"]  # the exit code to end with; None: go on


def stop_on_signal(stop: StopRequest) -> None:
    """Take SIGTERM and Ctrl-C as requests to stop; before the loop there is nothing to save."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        if not stop.begun:
            os._exit(STOPPED)
        stop.signalled = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)


class Watch:
    """A thread that ends this process at once when one of `checks` gives an exit code.

    Without clean-up: other threads may be waiting for a process that is gone, and the records are
    on disk.
    """

    def __init__(self, *checks: Check) -> None:
        self._checks = checks
        self._over = threading.Event()
        threading.Thread(target=self._look, name="watch", daemon=True).start()

    def close(self) -> None:
        """Check no more: this process is about to end by itself."""
        self._over.set()

    def _look(self) -> None:
        while True:
            for check in self._checks:
                code = check()
                if code is not None and not self._over.is_set():
                    os._exit(code)
            if self._over.wait(INTERVAL):
                return


class WorkerWatch(Watch):
    """Watches this worker's parent process and the other workers on this machine.

    A worker started by hand, without the environment variables above, watches only its parent.
    """

    def __init__(self, stop: StopRequest) -> None:
        folder = os.environ.get(WORKERS)
        self._folder = Path(folder) if folder is not None else None
        if self._folder is not None:
            self._sign_on(self._folder)
        self._stop = stop
        super().__init__(parent_watch(), self._peer_gone, self._stopped_before_the_loop)

    def close(self) -> None:
        """Sign off, so that the other workers do not take this end for a failure."""
        super().close()
        if self._folder is not None:
            (self._folder / str(os.getpid())).unlink(missing_ok=True)

    def first_to_fail(self) -> bool:
        """Whether this worker is to print why the run fails.

        Of several workers that fail alike, one does; one that fails because another died does not.
        """
        if self._folder is None:
            return True
        # connections to a dying process break before it counts as gone; and later on other nodes
        nodes = int(os.environ["GROUP_WORLD_SIZE"])
        until = time.monotonic() + (INTERVAL if nodes == 1 else 6 * INTERVAL)
        while time.monotonic() < until:
            if any(check() is not None for check in self._checks):
                return False
            time.sleep(INTERVAL / 5)
        try:
            (self._folder / FAILED).touch(exist_ok=False)
        except (FileExistsError, FileNotFoundError):  # another was first, or all is over
            return False
        return True

    @staticmethod
    def _sign_on(folder: Path) -> None:
        try:
            (folder / str(os.getpid())).touch()
        except FileNotFoundError:  # the parent has ended and removed the folder
            os._exit(LEFT)

    def _stopped_before_the_loop(self) -> int | None:
        """The loop saves before it leaves; before it there is nothing to save."""
        return STOPPED if not self._stop.begun and self._stop.asked() else None

    def _peer_gone(self) -> int | None:
        if self._folder is None:
            return None
        try:
            pids = [int(path.name) for path in self._folder.iterdir() if path.name.isdigit()]
        except FileNotFoundError:
            return LEFT
        return None if all(map(alive, pids)) else LEFT


def parent_watch() -> Check:
    """A check whether the parent process has ended."""
    expected = int(os.environ.get(PARENT, os.getppid()))
    # a process whose parent ends gets another parent
    return lambda: LEFT if os.getppid() != expected else None


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie, ended and not waited for, does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:  # Linux: the state stands behind the name, which may hold any character but the last ")"
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return not Path("/proc/self").exists()  # another system; on Linux: it ended just now
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def ending(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    hint = ": killed by hand, or memory ran out" if code == -signal.SIGKILL else ""
    return f"was ended by {signal.Signals(-code).name}{hint}"
