"""The locks of a run directory, each of which one process at a time can hold.

A command holds `lock` while its run works. The worker that writes the records holds `worker.lock`:
where a command is killed, its workers live on for a moment, and those of the next command wait.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from cory.config import ConfigError

LOCK = "lock"
WORKER_LOCK = "worker.lock"
WORKER_WAIT_S = 30.0  # workers look twice a second whether their command is there


@contextmanager
def lock(run_dir: Path, name: str = LOCK, wait_s: float = 0.0) -> Iterator[None]:
    """Hold a lock of a run directory, which is made if it is not there.

    wait_s: seconds to wait for whoever holds it; ConfigError after that
    """
    held = FileLock(run_dir / name, thread_local=False)
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        held.acquire(timeout=wait_s)
    except Timeout:
        raise ConfigError(f"run_dir={run_dir} is in use by another process") from None
    except NotImplementedError:
        raise ConfigError(f"run_dir={run_dir} is on a file system without locks") from None
    except OSError as error:
        raise ConfigError(f"run_dir={run_dir} cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        held.release()


def in_use(run_dir: Path) -> bool:
    """Whether a command or a worker holds a lock of a run directory."""
    for name in (LOCK, WORKER_LOCK):
        if (run_dir / name).exists():
            try:
                with lock(run_dir, name):
                    pass
            except ConfigError:
                return True
    return False
