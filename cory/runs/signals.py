"""Requests to stop, by a signal to any process of a command: all of them see one file.

The first signal asks what runs to save and to leave; the second, or one that comes while a run has
nothing to save, ends the process that gets it.
"""

import atexit
import os
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path
from types import FrameType

# environment variable: path of a file in a folder that the command makes for its own time; the file
# is made when the command is asked to stop
STOP_FILE = "CORY_STOP"
PARENT = "CORY_PARENT"  # environment variable: id of the process whose end is that of its children
BUILDS, SAVES = "builds", "saves"

_received: list[int] = []
# of a run in this process: BUILDS while it has nothing to save, SAVES once it looks at requests
_phase: list[str] = []


class Stopped(Exception):
    """The run was asked to stop, has saved, and can go on later; says where it stands."""


def listen() -> None:
    """Take Ctrl-C and SIGTERM as requests to stop, in this process.

    A job that a launcher starts on another machine has the command's environment, but not its
    folder: it makes its own.
    """
    if STOP_FILE not in os.environ or not Path(os.environ[STOP_FILE]).parent.is_dir():
        folder = tempfile.mkdtemp(prefix="cory_")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ[STOP_FILE] = f"{folder}/stop"
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _on_signal)


def _on_signal(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    if len(_received) > 1 or _phase == [BUILDS]:  # whatever it is at; its children see it go
        shutil.rmtree(Path(os.environ[STOP_FILE]).parent, ignore_errors=True)
        _say_at_once("interrupted; the same command goes on with the run")
        os._exit(128 + _received[0])
    ask_to_stop()
    if os.environ.get(PARENT) != str(os.getppid()):  # one of many that get the signal is enough
        _say_at_once("stopping: the run saves and leaves (a second Ctrl-C ends it at once)")


def _say_at_once(text: str) -> None:
    """Print from within a signal's handler, which may have come while a stream was written to."""
    os.write(2, f"\n{text}\n".encode())


def ask_to_stop() -> None:
    """Start no more jobs of this command; running ones save and leave."""
    with suppress(OSError):  # the folder may be gone, as others clean up; this process knows
        Path(os.environ[STOP_FILE]).touch()


def stopping() -> bool:
    """Whether this process, or the command that it belongs to, is asked to stop."""
    return bool(_received) or (STOP_FILE in os.environ and Path(os.environ[STOP_FILE]).exists())


def stopping_anywhere() -> bool:
    """Whether any process of the run is, also on other nodes; every process calls this."""
    from cory import distributed  # noqa: PLC0415  torch, which the command imports late

    return distributed.any_of(stopping())


def leave_if_asked(said: str) -> None:
    """Raise Stopped in every process where any of them is asked to stop; all call this."""
    if stopping_anywhere():
        raise Stopped(said)


def stop_code() -> int | None:
    """The command's exit code if it was asked to stop: 128 plus the signal, as in shells."""
    return 128 + (_received or [signal.SIGTERM])[0] if stopping() else None


def enter(phase: str) -> None:
    """Let signals know what the run in this process is at: BUILDS or SAVES."""
    _phase[:] = [phase]


def saves() -> bool:
    """Whether a run in this process looks at requests itself, and saves before it leaves."""
    return _phase == [SAVES]
