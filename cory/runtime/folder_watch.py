"""Ends a worker with one line when the run directory is moved or deleted while it works.

Files that are open can still be written then, so that hours of work would go nowhere; and a
checkpoint would make the directory again, without its settings.
"""

import os
import sys
import threading
from pathlib import Path

from cory.runs.stored_settings import SETTINGS
from cory.runtime.watchdog import REFUSED, Watch, WorkerWatch


class FolderWatch:
    """Looks twice a second whether the run directory is where it was."""

    def __init__(self, run_dir: Path, workers: WorkerWatch) -> None:
        """workers: decides which of several processes speaks"""
        self.run_dir = run_dir
        self._workers = workers
        self._began = identity(run_dir)
        self._speaking = threading.Lock()
        self._watch = Watch(self._look)

    def close(self) -> None:
        """Check no more: this process is about to end by itself."""
        self._watch.close()

    def gone(self) -> bool:
        """Whether the directory was moved, deleted or replaced."""
        if self._began is None or identity(self.run_dir) == self._began:
            return False
        # some network file systems number a directory anew; it still holds the settings then
        return not (self.run_dir / SETTINGS).exists()

    def say(self) -> None:
        """Say so, once for all threads and processes."""
        if self._speaking.acquire(blocking=False) and self._workers.first_to_fail():
            print(
                f"error: run_dir={self.run_dir} is gone: it was moved or deleted while the run "
                f"worked; where it is whole, move it back, and the same command goes on",
                file=sys.stderr,
                flush=True,
            )

    def _look(self) -> int | None:
        if not self.gone():
            return None
        self.say()
        return REFUSED


def identity(folder: Path) -> tuple[int, int] | None:
    """Which directory it is; None where there is none."""
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino
