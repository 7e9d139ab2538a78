"""The lock of a run directory, which one process at a time can hold.

It is on the directory itself and on the file `lock` in it. The first cannot be deleted without the
run; the second says who holds it, and is all that there is on file systems (NFS) that lock no
directories.
"""

import fcntl
import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from cory.config import ConfigError

LOCK = "lock"
TRIES = 10  # `in_use` of another process may hold it for a moment

_held: list["RunLock"] = []  # closing the files would release the locks


class RunLock:
    """The lock that this process holds, until `close` or the end of all that inherited it."""

    def __init__(self, folder: int, file: IO[str]) -> None:
        self._folder: int | None = folder
        self._file = file

    def filenos(self) -> Sequence[int]:
        """The descriptors that a child process inherits, to hold the lock as well."""
        return [] if self._folder is None else [self._folder, self._file.fileno()]

    def __enter__(self) -> "RunLock":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock, unless a child process holds it, too."""
        if self._folder is not None:
            os.close(self._folder)
            self._file.close()
        self._folder = None


def lock(run_dir: Path) -> RunLock:
    """Lock a run directory until this process ends; refuses one that is in use."""
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        for _ in range(TRIES):
            held, holder = _attempt(run_dir)
            if held is not None:
                _held.append(held)
                return held
            time.sleep(0.1)
    except OSError as error:
        raise ConfigError(f"run_dir={run_dir} cannot be written: {error.strerror}") from error
    raise ConfigError(f"run_dir={run_dir} is in use by {holder}")


def in_use(run_dir: Path) -> str | None:
    """The process that holds the lock of a run directory, in words; None if none does."""
    # NFS locks only what is open for writing
    for name, how in ((".", os.O_RDONLY), (LOCK, os.O_RDWR)):
        try:
            place = os.open(run_dir / name, how)
        except (FileNotFoundError, NotADirectoryError):
            continue
        try:
            if not _flocked(place):
                return _holder(run_dir)
        finally:
            os.close(place)
    return None


def _attempt(run_dir: Path) -> tuple[RunLock | None, str]:
    """The lock, or None and who holds it."""
    folder = os.open(run_dir, os.O_RDONLY)
    file = None
    try:
        if _flocked(folder):
            file = (run_dir / LOCK).open("a+", encoding="utf-8")
            if _flocked(file.fileno(), said=str(run_dir / LOCK)):
                file.truncate(0)
                file.write(f"process {os.getpid()} on {socket.gethostname()}")
                file.flush()
                held = RunLock(folder, file)
                folder, file = -1, None
                return held, ""
        return None, _holder(run_dir)
    finally:
        if file is not None:
            file.close()
        if folder != -1:
            os.close(folder)


def _flocked(place: int, said: str | None = None) -> bool:
    """Lock a file or a directory; whether no other process holds it.

    said: its name, for a note where its file system has no locks; None: no note
    """
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # some network file systems
        if said is not None:
            print(f"note: {said} cannot be locked ({error.strerror}); start a run only once")
    return True


def _holder(run_dir: Path) -> str:
    try:
        text = (run_dir / LOCK).read_text(encoding="utf-8", errors="replace")
    except OSError:  # deleted
        text = ""
    return text.strip() or "another process"
