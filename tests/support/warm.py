"""The command without its imports: in forks of a process that has imported all.

A run imports for seven seconds of processor time and then works for one. Here the command and the
processes that it starts are forks. They are what they are for users but for how they begin: each
has its own process id, session, environment and standard streams, the parent that it would have,
and no files but those it is to have. What this cannot show, whether modules can be started by their
names, is tested with `Command`.

The process that is forked is started once per session, and ends with it.
"""

import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import IO

from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler

from cory import notebook, train
from cory.functional import logprobs
from cory.runtime import launch, worker
from tests.support.commands import PATIENCE, Said, sign_on

FORKS = get_context("forkserver")
FORKS.set_forkserver_preload(["tests.support.imported"])
MODULES = {worker.__name__: worker.main}
SLAB = "CORY_TEST_SLAB"  # environment: bytes of logits that are computed at once


class Fork(Said):
    """A function in a fork, with its own folder, environment and standard streams."""

    def __init__(self, cwd: Path, task: Callable[[], None], **environment: str) -> None:
        super().__init__(cwd)
        variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
        streams = (str(self.out_file), str(self.err_file))
        for path in streams:
            Path(path).touch()
        self.process = FORKS.Process(target=_alone, args=(str(cwd), variables, streams, task))
        self.process.start()

    @property
    def pid(self) -> int:
        pid = self.process.pid
        assert pid is not None
        return pid

    def poll(self) -> int | None:
        """Its exit code, None while it runs."""
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.process.kill()

    def wait(self, timeout: float = PATIENCE) -> int:
        """Its exit code."""
        self.process.join(timeout)
        code = self.process.exitcode
        if code is None:
            self.process.kill()  # its children see it go
            raise TimeoutError(f"not over after {timeout} s: {self.err}")
        return code


class WarmCommand(Fork):
    """One started command; `words` are those after `python -m cory.train`.

    largest_file: bytes; files cannot be written beyond, as on a full disk
    """

    def __init__(
        self, cwd: Path, words: list[str], largest_file: int | None = None, **environment: str
    ) -> None:
        super().__init__(cwd, partial(_train, words, largest_file), **environment)


def _alone(
    cwd: str, variables: dict[str, str], streams: tuple[str, str], task: Callable[[], None]
) -> None:
    os.chdir(cwd)
    _become(variables)
    for number, path in enumerate(streams, start=1):
        with open(path, "w") as file:
            os.dup2(file.fileno(), number)
    task()


def _train(words: Sequence[str], largest_file: int | None) -> None:
    """The command, whose own processes are forks of this one."""
    if largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, resource.RLIM_INFINITY))
    sys.argv = ["cory.train", *words]
    launch.subprocess = SimpleNamespace(call=_called)  # type: ignore[assignment]  # all it uses
    # torch's agent, which starts several
    SubprocessHandler._popen = lambda self, args, env: Forked(args, env, True)  # type: ignore[assignment,misc,return-value]
    if SLAB in os.environ:
        logprobs.SLAB_BYTES = int(os.environ[SLAB])
    train.main()


def _called(args: Sequence[str], start_new_session: bool) -> int:
    return Forked(args, dict(os.environ), start_new_session).wait(4 * PATIENCE)


def _become(variables: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)


class Forked:
    """As much of subprocess.Popen as launch.py and torch's agent use, for `python -m <module>`."""

    def __init__(
        self,
        args: Sequence[str],
        env: Mapping[str, str],
        start_new_session: bool,
        stdout: IO[bytes] | None = None,
        stderr: IO[bytes] | None = None,
    ) -> None:
        assert start_new_session
        _, _, module, run_dir = args
        self._fork(lambda: _started(module, run_dir, env), stdout, stderr)

    def _fork(
        self, task: Callable[[], None], stdout: IO[bytes] | None, stderr: IO[bytes] | None
    ) -> None:
        self._code: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            for number, stream in ((1, stdout), (2, stderr)):
                if stream is not None:
                    os.dup2(stream.fileno(), number)
            _run(task)

    def poll(self) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def wait(self, timeout: float = PATIENCE) -> int:
        until = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("a fork", timeout)
            time.sleep(0.02)
        return code

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


class ForkedCommand(Forked):
    """The same as notebook.py uses it: the command, whose output comes through a pipe."""

    def __init__(
        self, args: Sequence[str], stdout: int, stderr: int, start_new_session: bool
    ) -> None:
        assert (stdout, stderr) == (subprocess.PIPE, subprocess.STDOUT) and start_new_session
        reading, writing = os.pipe()
        self.stdout = open(reading, "rb")  # noqa: SIM115  read by who starts it
        with open(writing, "wb") as pipe:
            self._fork(partial(_command, args[3:]), pipe, pipe)


def _command(words: Sequence[str]) -> None:
    os.setsid()
    _train(words, None)


def warm_notebook() -> None:
    """From now on `cory.run` starts the command as a fork."""
    how = {"PIPE": subprocess.PIPE, "STDOUT": subprocess.STDOUT}
    notebook.subprocess = SimpleNamespace(Popen=ForkedCommand, **how)  # type: ignore[assignment]


def _run(task: Callable[[], None]) -> None:
    """Do this and end this process, as Python ends."""
    code: object = 1
    try:
        task()
        code = 0
    except SystemExit as left:
        code = left.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


def _started(module: str, run_dir: str, variables: Mapping[str, str]) -> None:
    """`python -m <module> <run_dir>`, in a fork of the command."""
    os.setsid()
    _let_go_of_files()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    _become(variables)
    sign_on(run_dir, variables.get("RANK"))
    if SLAB in variables:
        logprobs.SLAB_BYTES = int(variables[SLAB])
    sys.argv = [module, run_dir]
    MODULES[module]()


def _let_go_of_files() -> None:
    """What a new program would not inherit, among it the lock of a run directory.

    Python objects of the parent still name the files, so that each number stays taken.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            if number != nothing and not os.get_inheritable(number):
                os.dup2(nothing, number, inheritable=False)
        except OSError:  # the one that listed them
            continue
