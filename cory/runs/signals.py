"""Requests to stop, by a signal to any process of a command: all of them see one file.

The first signal asks what runs to save and to leave, the second ends the process that gets it.
"""

import atexit
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

# environment variable: path of a file in a folder that the command makes for its own time; the file
# is made when the command is asked to stop, and holds the signal's number
STOP_FILE = "CORY_STOP"
PARENT = "CORY_PARENT"  # environment variable: id of the process whose end is that of its children
SIGNALS = (signal.SIGTERM, signal.SIGINT)

_received: list[int] = []
_nothing_to_save: list[Callable[[], bool]] = []  # whether a signal ends what this process does
_saves: list[bool] = []  # not empty: a run in this process looks at requests, and saves


class Stopped(Exception):
    """The run was asked to stop, has saved, and can go on later; says where it stands."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Within this context signals ask this process, and all that it starts, to stop."""
    before = [signal.getsignal(number) for number in SIGNALS]
    with tempfile.TemporaryDirectory(prefix="cory_") as folder:
        os.environ[STOP_FILE] = f"{folder}/stop"
        listen()
        try:
            yield
        finally:
            _received.clear()
            for number, handler in zip(SIGNALS, before, strict=True):
                signal.signal(number, handler)


def listen() -> None:
    """Take Ctrl-C and SIGTERM as requests to stop, in this process.

    A job that a launcher starts on another machine has the command's environment, but not its
    folder: it makes its own.
    """
    if STOP_FILE not in os.environ or not Path(os.environ[STOP_FILE]).parent.is_dir():
        folder = tempfile.mkdtemp(prefix="cory_")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ[STOP_FILE] = f"{folder}/stop"
    for number in SIGNALS:
        signal.signal(number, _on_signal)


def _on_signal(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    if len(_received) > 1:  # whatever it is at; its children see it go
        shutil.rmtree(Path(os.environ[STOP_FILE]).parent, ignore_errors=True)
        _say_at_once("interrupted; the same command goes on with the run")
        os._exit(128 + _received[0])
    ask_to_stop(number)
    if _nothing_to_save and _nothing_to_save[-1]():
        raise KeyboardInterrupt
    if os.environ.get(PARENT) != str(os.getppid()):  # one of many that get the signal is enough
        _say_at_once("stopping: the run saves and leaves (a second Ctrl-C ends it at once)")


def _say_at_once(text: str) -> None:
    """Print from within a signal's handler, which may have come while a stream was written to."""
    os.write(2, f"\n{text}\n".encode())


def ask_to_stop(number: int) -> None:
    """Start no more jobs of this command; running ones save and leave."""
    with suppress(OSError):  # the folder may be gone, as others clean up; this process knows
        Path(os.environ[STOP_FILE]).write_text(str(number), encoding="utf-8")


def stopping() -> bool:
    """Whether this process, or the command that it belongs to, is asked to stop."""
    return bool(_received) or (STOP_FILE in os.environ and Path(os.environ[STOP_FILE]).exists())


def stopping_anywhere() -> bool:
    """Whether any process of the run is, also on other nodes; every process calls this."""
    from cory import distributed  # noqa: PLC0415  torch, which the command imports late

    return distributed.any_of(stopping())


def leave_if_asked(saved: str) -> None:
    """Raise Stopped in every process where any of them is asked to stop; all call this.

    saved: what is on disk, for the message
    """
    if stopping_anywhere():
        raise Stopped(f"saved {saved}")


def stop_code() -> int | None:
    """The command's exit code if it was asked to stop: 128 plus the signal, as in shells."""
    if not stopping():
        return None
    told = "" if _received else Path(os.environ[STOP_FILE]).read_text(encoding="utf-8")
    asked = _received or [int(told or signal.SIGTERM)]
    return 128 + asked[0]


@contextmanager
def interruptible(where: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Within this context a request to stop is a KeyboardInterrupt, where `where()` holds.

    So it is while there is nothing to save, until `saves_from_here`.
    """
    _nothing_to_save.append(where)
    try:
        if stopping() and where():
            raise KeyboardInterrupt
        yield
    finally:
        _nothing_to_save.clear()


def saves_from_here() -> None:
    """From now on this process looks at requests itself, and saves before it leaves."""
    _nothing_to_save.clear()
    _saves.append(True)


def saves() -> bool:
    """Whether that is so."""
    return bool(_saves)
