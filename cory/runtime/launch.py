"""Runs a run: in this process, over several that torch starts, or in a process of its own.

A run with one process works in the command itself. Each job of a sweep gets a process, since
DeepSpeed can be started once in a process; and so does each process of a run with several.
"""

import atexit
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from cory.config import HardwareConfig, cores, parse_config
from cory.runs.settings import read_settings

# exit codes of the processes of a run
FINISHED = 0
REFUSED = 1  # failed, with the reason printed
STOPPED = 75  # saved and left on request ("try again later" among Unix's exit codes)

# environment variable: path of a file in a folder that the command makes for its own time; the file
# is made when the command is asked to stop, and holds the signal's number
COMMAND_STOP = "CORY_STOP"
PARENT = "CORY_PARENT"  # environment variable: id of the process whose end is that of its children
SIGNALS = (signal.SIGTERM, signal.SIGINT)
INTERVAL_S = 0.1  # between two looks at a process
WATCH_S = 0.5  # between two looks at a parent

_received: list[int] = []
_worked: list[Path] = []  # run directories of runs that worked in this process
_on_stop: list[Callable[[], None]] = []  # what the run in this process does when asked to stop


class JobFailed(Exception):
    """A run that failed or was stopped; the reason has been printed."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Within this context the first Ctrl-C or SIGTERM asks to stop; the second ends the process."""
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
    """Take Ctrl-C and SIGTERM as requests to stop, in this process.

    A job that a launcher starts on another machine has the command's environment, but not its
    folder: it makes its own.
    """
    if COMMAND_STOP not in os.environ or not Path(os.environ[COMMAND_STOP]).parent.is_dir():
        folder = tempfile.mkdtemp(prefix="cory_")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ[COMMAND_STOP] = f"{folder}/stop"
    for number in SIGNALS:
        signal.signal(number, _on_signal)


def _on_signal(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    if len(_received) > 1:  # whatever it is at; its children see it go
        shutil.rmtree(Path(os.environ[COMMAND_STOP]).parent, ignore_errors=True)
        say_at_once("interrupted; the same command goes on with the run")
        os._exit(128 + _received[0])
    ask_to_stop(number)
    for action in _on_stop:
        action()


def say_at_once(text: str) -> None:
    """Print from within a signal's handler, which may have come while a stream was written to."""
    os.write(2, f"\n{text}\n".encode())


def ask_to_stop(number: int) -> None:
    """Start no more jobs of this command; running ones save and leave."""
    with suppress(OSError):  # the folder may be gone, as others clean up; this process knows
        Path(os.environ[COMMAND_STOP]).write_text(str(number), encoding="utf-8")


def stopping() -> bool:
    """Whether this command, or the sweep that this job belongs to, is asked to stop."""
    return bool(_received) or Path(os.environ[COMMAND_STOP]).exists()


def stop_code() -> int | None:
    """The command's exit code if it was asked to stop: 128 plus the signal, as in shells."""
    if not stopping():
        return None
    asked = _received or [int(Path(os.environ[COMMAND_STOP]).read_text(encoding="utf-8"))]
    return 128 + asked[0]


@contextmanager
def when_asked_to_stop(action: Callable[[], None]) -> Iterator[None]:
    """Within this context a request to stop is passed on by an action."""
    _on_stop.append(action)
    try:
        if stopping():
            action()
        yield
    finally:
        _on_stop.remove(action)


def launch(run_dir: Path, hardware: HardwareConfig, apart: bool = False) -> bool:
    """Run what `run_dir` has the settings of; whether the run is finished.

    apart: in a process of its own
    """
    if apart:
        return _run_apart(run_dir, hardware) == FINISHED
    os.environ.update(environment(hardware))
    try:
        code = _run_here(run_dir, hardware)
    except KeyboardInterrupt:  # before there was anything to save
        code = STOPPED
    if code == STOPPED:
        if not stopping():  # a process of the run got the signal, or another node did
            ask_to_stop(signal.SIGTERM)
        print(
            f"interrupted; the run in {run_dir} is unfinished; the same command goes on with it",
            file=sys.stderr,
        )
    return code == FINISHED


def _run_here(run_dir: Path, hardware: HardwareConfig) -> int:
    """The exit code of a run in this process, or in those that it starts."""
    if hardware.world > 1:
        from cory.runtime.processes import run_workers  # noqa: PLC0415  torch takes a second

        return run_workers(run_dir, hardware)
    with when_asked_to_stop(leave_at_once):
        from cory.runtime.worker import run_alone  # noqa: PLC0415  torch and all that builds on it

    _worked.append(run_dir)
    return run_alone(run_dir)


def leave_at_once() -> None:
    """What a request to stop does while there is nothing to save."""
    raise KeyboardInterrupt


def _run_apart(run_dir: Path, hardware: HardwareConfig) -> int:
    """The exit code of a run in a process of its own, which gets a request to stop."""
    # in a new session: Ctrl-C reaches this process only, which then passes it on
    process = subprocess.Popen(
        [sys.executable, "-m", "cory.runtime.launch", str(run_dir)],
        env={**os.environ, **environment(hardware), PARENT: str(os.getpid())},
        start_new_session=True,
    )
    asked = False
    while (code := process.poll()) is None:
        if stopping() and not asked:
            process.send_signal(signal.SIGTERM)
            asked = True
        time.sleep(INTERVAL_S)
    if code < 0 and not stopping():  # nothing has said why
        print(f"error: the process of {run_dir} {ending(code)}", file=sys.stderr)
    elif code > 128 and not stopping():
        ask_to_stop(code - 128)  # it got the signal directly
    return code


def environment(hardware: HardwareConfig) -> dict[str, str]:
    """Environment variables of a run that torch and DeepSpeed read when they are imported."""
    # threads that wait for each other sleep: where others need the cores, waiting in a busy loop
    # made an iteration take 1.7 times as long; on an idle machine no difference was seen
    unless_chosen = {"OMP_WAIT_POLICY": "PASSIVE"}
    if hardware.processes > 1:
        # more threads than cores would slow down all processes
        unless_chosen["OMP_NUM_THREADS"] = str(max(1, cores() // hardware.processes))
    if hardware.world > 1:
        unless_chosen["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # no warnings while nodes await each other
    chosen = {name: os.environ[name] for name in unless_chosen if name in os.environ}
    # named here, so that DeepSpeed does not guess the device and warn
    return {**unless_chosen, **chosen, "DS_ACCELERATOR": hardware.device}


def end_with_parent() -> None:
    """End this process soon after the one that started it, also where that one was killed."""
    parent = int(os.environ.get(PARENT, os.getppid()))

    def watch() -> None:
        while os.getppid() == parent:  # a process whose parent ends gets another parent
            time.sleep(WATCH_S)
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


def main() -> None:
    """`python -m cory.runtime.launch <run_dir>`: a run in a process of its own."""
    end_with_parent()
    run_dir = Path(sys.argv[1])
    with stoppable():
        finished = launch(run_dir, parse_config(read_settings(run_dir)).hardware)
        code = stop_code() or REFUSED
    leave(FINISHED if finished else code)


def end_of_command() -> None:
    """End this process where a run has worked in it: to take torch apart would take a second."""
    if _worked:
        leave(FINISHED)


def leave(code: int) -> None:
    """End this process; threads of the process group may abort a normal exit."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # by its name: a second copy of this module would not hear what the worker does on a signal
    from cory.runtime.launch import main as named_main

    named_main()
