"""Starts the workers of a run, and stops them when the command is asked to stop."""

import atexit
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO

from cory.config import HardwareConfig
from cory.runs.run_dir import RECORD, STOP
from cory.runtime.watchdog import PARENT, REFUSED, STOPPED, ending

# environment variable: path of a file in a folder that the command makes for its own time; the file
# is made when the command is asked to stop, and holds the signal's number
COMMAND_STOP = "CORY_STOP"
SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Where a launcher has started several processes, only that of rank 0 prints the refusal. A launcher
# ends all processes once one has ended, so the others wait this long first.
UNTIL_SAID_S = 30
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
    if len(_received) > 1:
        raise KeyboardInterrupt
    ask_to_stop(number)


def ask_to_stop(number: int) -> None:
    """Start no more jobs of this command; running ones save and leave."""
    Path(os.environ[COMMAND_STOP]).write_text(str(number), encoding="utf-8")


def stopping() -> bool:
    """Whether this command, or the sweep that this job belongs to, is asked to stop."""
    return Path(os.environ[COMMAND_STOP]).exists()


def stop_code() -> int | None:
    """The command's exit code if it was asked to stop: 128 plus the signal, as in shells."""
    if not stopping():
        return None
    return 128 + int(Path(os.environ[COMMAND_STOP]).read_text(encoding="utf-8"))


class Run:
    """The worker processes of one run, from their start to their end."""

    def __init__(
        self,
        run_dir: Path,
        hardware: HardwareConfig,
        at_once: int = 1,
        out: IO[bytes] | None = None,
        err: IO[bytes] | None = None,
    ) -> None:
        """Start the workers.

        at_once: runs that share the cores of this machine
        out, err: where the workers write; None: where this process does
        """
        self.run_dir = run_dir
        self._nodes = hardware.nodes
        self._shares_screen = out is None
        module = "cory.runtime.worker" if hardware.world == 1 else "cory.runtime.torchrun"
        self._request = run_dir / STOP
        self._request.unlink(missing_ok=True)
        self._asked = False
        # a record that is there already is of a damaged run, which goes on from its kept state
        self._earlier = version_of(run_dir / RECORD)
        # in a new session: Ctrl-C reaches this process only, which then asks the workers to stop
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, str(run_dir)],
            env=environment(hardware, at_once),
            start_new_session=True,
            stdout=out,
            stderr=err,
        )

    def finished(self) -> bool | None:
        """Whether the run is finished; None while the workers run. Passes on a request to stop."""
        code = self._process.poll()
        if code is None:
            if stopping() and not self._asked:
                self._leave_the_bar()
                print(
                    f"stopping: the run in {self.run_dir} saves and leaves "
                    f"(a second Ctrl-C ends it at once)",
                    file=sys.stderr,
                )
                with suppress(FileNotFoundError):  # the folder is gone, as the workers notice
                    self._request.touch()
                self._asked = True
            return None
        self._request.unlink(missing_ok=True)
        if version_of(self.run_dir / RECORD) not in (None, self._earlier):
            return True  # the record decides: a process may fail after its work
        if code == 0 and self._nodes > 1:
            return True  # the record, written on another node, may take a while to be visible here
        if code in (STOPPED, -signal.SIGTERM, -signal.SIGINT):
            if not stopping():
                ask_to_stop(signal.SIGTERM)  # the workers got it directly, or another node did
            say_interrupted(self.run_dir)
        elif code != REFUSED:
            self._leave_the_bar()
            print(f"error: the worker of {self.run_dir} {ending(code)}", file=sys.stderr)
        return False

    def kill(self) -> None:
        """End the workers at once, as a second Ctrl-C does."""
        self._process.kill()  # the workers of several processes end when their parent is gone
        self._process.wait()
        self._request.unlink(missing_ok=True)
        self._leave_the_bar()
        say_interrupted(self.run_dir)

    def _leave_the_bar(self) -> None:
        """Go to a new line where the workers draw a bar: its line is not finished."""
        if self._shares_screen:
            print(flush=True)


def version_of(path: Path) -> tuple[int, int] | None:
    """Which writing of a file it is; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def launch(run_dir: Path, hardware: HardwareConfig) -> bool:
    """Run the workers in other processes; whether they finished the run."""
    run = Run(run_dir, hardware)
    try:
        while (finished := run.finished()) is None:
            time.sleep(INTERVAL)
    except BaseException:  # a second Ctrl-C
        run.kill()
        raise
    return finished


def say_interrupted(run_dir: Path) -> None:
    print(
        f"interrupted; the run in {run_dir} is unfinished; the same command goes on with it",
        file=sys.stderr,
    )


def environment(hardware: HardwareConfig, at_once: int = 1) -> dict[str, str]:
    """The environment variables of the workers.

    at_once: runs that share the cores of this machine
    """
    # threads that wait for each other sleep: where others need the cores, waiting in a busy loop
    # made an iteration take 1.7 times as long; on an idle machine no difference was seen
    unless_chosen = {"OMP_WAIT_POLICY": "PASSIVE"}
    if at_once * hardware.processes > 1:
        # more threads than cores would slow down all processes
        unless_chosen["OMP_NUM_THREADS"] = str(hardware.threads(at_once))
    if hardware.world > 1:
        unless_chosen["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # no warnings while nodes await each other
    # named here, so that DeepSpeed does not guess the device and warn
    always = {PARENT: str(os.getpid()), "DS_ACCELERATOR": hardware.device}
    return {**unless_chosen, **os.environ, **always}


def refuse_launchers() -> None:
    """The workers are started here; torchrun or deepspeed around it would start too many."""
    words = [word for word in sys.argv[1:] if not re.match("--local[-_]rank", word)]
    if "RANK" not in os.environ and words == sys.argv[1:]:
        return
    if os.environ.get("RANK", "0") != "0":
        time.sleep(UNTIL_SAID_S)
        sys.exit(1)
    if not any(word.startswith("hardware") for word in words):
        many = os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("WORLD_SIZE", "1"))
        words.append(f"hardware.processes={many}")
    sys.exit(
        f"error: cory.train starts its own workers, without torchrun, deepspeed or another "
        f"launcher; type: python -m cory.train {shlex.join(words)}"
    )
