"""Runs a run: in this process, over several that torch starts, or in a process of its own.

A run with one process works in the command itself. Each job of a sweep gets a process, since
DeepSpeed can be started once in a process; and so does each process of a run with several.
"""

import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cory.config import HardwareConfig, cores
from cory.runs.signals import PARENT, ask_to_stop, interruptible, saves, stopping

# exit codes of the processes of a run
FINISHED = 0
REFUSED = 1  # failed, with the reason printed
STOPPED = 75  # saved and left on request ("try again later" among Unix's exit codes)

INTERVAL_S = 0.1  # between two looks at a process
WATCH_S = 0.5  # between two looks at a parent
JOIN_TIMEOUT = 1800  # seconds to wait for the other nodes; people type the commands

_worked: list[Path] = []  # run directories of runs that worked in this process


class JobFailed(Exception):
    """A run that failed or was stopped; the reason has been printed."""


def launch(run_dir: Path, hardware: HardwareConfig, apart: bool = False) -> bool:
    """Run what `run_dir` has the settings of; whether the run is finished.

    apart: in a process of its own
    """
    with environment(hardware):
        try:
            code = _start(run_dir, hardware, apart)
        except KeyboardInterrupt:  # before there was anything to save
            code = STOPPED
    if code == STOPPED:
        if not stopping():  # another node was asked
            ask_to_stop(signal.SIGTERM)
        print(
            f"interrupted; the run in {run_dir} is unfinished; the same command goes on with it",
            file=sys.stderr,
        )
    return code == FINISHED


def _start(run_dir: Path, hardware: HardwareConfig, apart: bool) -> int:
    """The exit code of a run, wherever it works."""
    if hardware.world > 1:
        return run_workers(run_dir, hardware)
    if apart:
        return _run_apart(run_dir)
    _worked.append(run_dir)
    with interruptible():
        from cory.runtime.worker import attempt  # noqa: PLC0415  torch and all that builds on it

        if stopping():  # a library has caught the interrupt while it was imported
            raise KeyboardInterrupt
        return attempt(run_dir)


def _run_apart(run_dir: Path) -> int:
    """The exit code of a run in a process of its own."""
    # in a new session: Ctrl-C reaches this process only; the other one sees that it was asked
    process = subprocess.Popen(
        [sys.executable, "-m", "cory.runtime.worker", str(run_dir)],
        env={**os.environ, PARENT: str(os.getpid())},
        start_new_session=True,
    )
    while (code := process.poll()) is None:
        time.sleep(INTERVAL_S)
    if code < 0 and not stopping():  # nothing has said why
        print(f"error: the process of {run_dir} {ending(code)}", file=sys.stderr)
    return code


def run_workers(run_dir: Path, hardware: HardwareConfig) -> int:
    """Start this machine's processes of a run, wait for them, and return the exit code.

    torch's elastic agent meets the other nodes, assigns ranks, starts the processes and ends them
    all when one has failed.
    """
    # torch takes a second, and a run with one process imports it later
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs  # noqa: PLC0415
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError  # noqa: PLC0415
    from torch.distributed.elastic.rendezvous import RendezvousError  # noqa: PLC0415
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch  # noqa: PLC0415

    rendezvous = hardware.rendezvous if hardware.nodes > 1 else None
    os.environ[PARENT] = str(os.getpid())
    logging.disable(logging.CRITICAL)  # the agent's log: a process that fails says why
    try:
        # the folder is where processes say why they failed
        with tempfile.TemporaryDirectory(prefix="cory_") as folder, interruptible(none_started):
            config = LaunchConfig(
                min_nodes=hardware.nodes,
                max_nodes=hardware.nodes,
                nproc_per_node=hardware.processes,
                run_id=run_dir.resolve().name,
                rdzv_backend="c10d",
                # port 0: a free one, so that two runs on one machine do not meet
                rdzv_endpoint=rendezvous or "localhost:0",
                rdzv_configs={"join_timeout": JOIN_TIMEOUT},
                max_restarts=0,
                monitor_interval=0.1,
                signals_to_handle="",  # this process handles its signals itself
                logs_specs=DefaultLogsSpecs(log_dir=folder),
            )
            elastic_launch(config, sys.executable)("-m", "cory.runtime.worker", run_dir)
    except ChildFailedError as error:
        return exit_code(error.failures)
    except RendezvousError as error:
        print(
            f"error: hardware.rendezvous={hardware.rendezvous}: the {hardware.nodes} nodes did not "
            f"come together ({error})",
            file=sys.stderr,
        )
        return REFUSED
    finally:
        logging.disable(logging.NOTSET)
    return FINISHED


def none_started() -> bool:
    """Whether the agent still waits for other nodes."""
    import psutil  # type: ignore[import-untyped]  # noqa: PLC0415  its stubs are not installed

    return not psutil.Process().children()


def exit_code(failures: Mapping[int, Any]) -> int:
    """The exit code where not all processes finished; prints why the first one failed.

    A process that was killed or left without a word is the reason why others lost their connection
    to it; else what came first is the reason.
    """
    by_agent = (-signal.SIGTERM, -signal.SIGINT)  # after another one's end
    for rank, failure in failures.items():
        if failure.exitcode not in (REFUSED, STOPPED, *by_agent):
            print(f"error: worker {rank} {ending(failure.exitcode)}", file=sys.stderr)
            return REFUSED
    refused = {rank: one for rank, one in failures.items() if one.exitcode == REFUSED}
    if not refused:
        return STOPPED
    told = {rank: one.error_file_data["message"] for rank, one in refused.items()}
    for rank, message in told.items():
        if isinstance(message, str):  # torch's own: the worker has said nothing
            print(f"error: worker {rank} {ending(REFUSED)}", file=sys.stderr)
            return REFUSED
    first = min(told.values(), key=lambda message: message["extraInfo"]["nanoseconds"])
    print(first["message"], file=sys.stderr)
    return REFUSED


@contextmanager
def environment(hardware: HardwareConfig) -> Iterator[None]:
    """Within it are the variables that torch and DeepSpeed read when they are imported."""
    # threads that wait for each other sleep: where others need the cores, waiting in a busy loop
    # made an iteration take 1.7 times as long; on an idle machine no difference was seen
    unless_chosen = {"OMP_WAIT_POLICY": "PASSIVE"}
    if hardware.processes > 1:
        # more threads than cores would slow down all processes
        unless_chosen["OMP_NUM_THREADS"] = str(max(1, cores() // hardware.processes))
    if hardware.world > 1:
        unless_chosen["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # no warnings while nodes await each other
    before = dict(os.environ)
    # the device is named, so that DeepSpeed does not guess it and warn
    os.environ.update({**unless_chosen, **before, "DS_ACCELERATOR": hardware.device})
    try:
        yield
    finally:
        os.environ.update(before)
        for name in os.environ.keys() - before.keys():
            del os.environ[name]


def end_with_parent(building: bool = False) -> None:
    """End this process soon after the one that started it, also where that one was killed.

    building: also where the command is asked to stop before this process has anything to save
    """
    parent = int(os.environ.get(PARENT, os.getppid()))

    def watch() -> None:
        while os.getppid() == parent:  # a process whose parent ends gets another parent
            time.sleep(WATCH_S)
            if building and stopping() and not saves():
                os._exit(STOPPED)
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
    if "RANK" in os.environ or any(word.startswith("--local") for word in sys.argv):
        sys.exit(
            "error: cory.train starts its own workers, without torchrun, deepspeed or another "
            "launcher: hardware.processes says how many"
        )


def end_of_command() -> None:
    """End this process where a run has worked in it: to take torch apart would take a second."""
    if _worked:
        leave(FINISHED)


def leave(code: int) -> None:
    """End this process; threads of the process group may abort a normal exit."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
