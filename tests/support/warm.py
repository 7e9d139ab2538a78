"""`python -m cory.train` without its start: in forks of a process that has imported everything.

A worker imports for five seconds and then runs for one. For tests of what a run computes and
records; what starts, watches and stops its processes is tested with `Command`, which starts them
as users do. The process that is forked is started once per session, and ends with it.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

from omegaconf import OmegaConf

from cory import train
from cory.runs.run_dir import SETTINGS
from cory.runtime import launch, worker
from cory.runtime.watchdog import PARENT
from tests.support.commands import PATIENCE, Said

FORKS = get_context("forkserver")
FORKS.set_forkserver_preload(["tests.support.imported"])


class WarmCommand(Said):
    """One started command; `words` are those after `python -m cory.train`."""

    def __init__(self, cwd: Path, words: list[str], **environment: str) -> None:
        super().__init__(cwd)
        variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
        streams = (str(self.out_file), str(self.err_file))
        self.process = FORKS.Process(target=_command, args=(str(cwd), words, variables, streams))
        self.process.start()

    def wait(self, timeout: float = PATIENCE) -> int:
        """Its exit code."""
        self.process.join(timeout)
        code = self.process.exitcode
        if code is None:
            self.process.kill()  # the workers see it go
            raise TimeoutError(f"not over after {timeout} s: {self.err}")
        return code


def _command(
    cwd: str, words: list[str], variables: dict[str, str], streams: tuple[str, str]
) -> None:
    """What a command does, its workers being forks of this process."""
    os.chdir(cwd)
    _become(variables)
    for number, path in enumerate(streams, start=1):
        with open(path, "w") as file:
            os.dup2(file.fileno(), number)
    sys.argv = ["cory.train", *words]
    launch.subprocess = SimpleNamespace(Popen=_Forked)  # type: ignore[assignment]  # all it uses
    # not the job of a parallel sweep, which looks whether its sweep still runs
    launch.multiprocessing = SimpleNamespace(parent_process=lambda: None)  # type: ignore[assignment]
    train.main()


def _become(variables: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)


class _Forked:
    """As much of subprocess.Popen as launch.py uses, for its two commands."""

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        start_new_session: bool,
        pass_fds: Sequence[int],
    ) -> None:
        _, _, module, run_dir = command
        work = {"cory.runtime.worker": _work, "cory.runtime.torchrun": _work_together}[module]
        self.pid = _fork(lambda: work(run_dir, env))
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def wait(self) -> int:
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def _fork(task: Callable[[], NoReturn]) -> int:
    """Do this in a new process, which ends in it; its id."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        with ExitStack() as whatever_happens:
            whatever_happens.callback(os._exit, 1)
            task()
    return pid


def _work(run_dir: str, variables: Mapping[str, str]) -> NoReturn:
    """One worker."""
    _become(variables)
    sys.argv = ["cory.runtime.worker", run_dir]
    worker.main()
    raise AssertionError("a worker ends in main()")


def _work_together(run_dir: str, variables: Mapping[str, str]) -> NoReturn:
    """Every worker of a run on this machine; one that fails takes the others along."""
    count = OmegaConf.load(Path(run_dir) / SETTINGS).hardware.processes
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    group = {
        **variables,
        PARENT: str(os.getpid()),
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    ranks = [{**group, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]
    left = [_fork(lambda own=own: _work(run_dir, own)) for own in ranks]
    while left:
        pid, status = os.wait()
        left.remove(pid)
        code = os.waitstatus_to_exitcode(status)
        if code != 0:
            os._exit(code if code > 0 else 1)  # the others see it go
    os._exit(0)
