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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cory.config import ConfigError, HardwareConfig, cores
from cory.runs.signals import BUILDS, PARENT, ask_to_stop, enter, saves, stopping

# exit codes of the processes of a run
FINISHED = 0
REFUSED = 1  # failed, with the reason printed
STOPPED = 75  # saved and left on request ("try again later" among Unix's exit codes)

WATCH_S = 0.5  # between two looks at a parent
JOIN_TIMEOUT = 1800  # seconds to wait for the other nodes; people type the commands


class JobFailed(Exception):
    """A run that failed or was stopped; the reason has been printed."""


def launch(run_dir: Path, hardware: HardwareConfig, apart: bool = False) -> bool:
    """Run what `run_dir` has the settings of; whether the run is finished.

    apart: in a process of its own
    """
    before = dict(os.environ)
    os.environ.update(variables(hardware))
    try:
        if hardware.world > 1:
            code = run_workers(run_dir, hardware)
        elif apart:
            # in a new session: Ctrl-C reaches this process only; the other sees that it was asked
            words = [sys.executable, "-m", "cory.runtime.worker", str(run_dir)]
            code = subprocess.call(words, start_new_session=True)
            if code < 0 and not stopping():  # nothing has said why
                print(f"error: the process of {run_dir} {ending(code)}", file=sys.stderr)
        else:
            enter(BUILDS)
            from cory.runtime.worker import attempt  # noqa: PLC0415  torch and all that needs it

            code = attempt(run_dir)
    finally:
        os.environ.clear()
        os.environ.update(before)
    if code == STOPPED:
        ask_to_stop()  # another node may have been asked
        print(
            f"interrupted; the run in {run_dir} is unfinished; the same command goes on with it",
            file=sys.stderr,
        )
    return code == FINISHED


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
    logging.disable(logging.CRITICAL)  # the agent's log: a process that fails says why
    try:
        # the folder is where processes say why they failed
        with tempfile.TemporaryDirectory(prefix="cory_") as folder:
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
        raise ConfigError(
            f"hardware.rendezvous={hardware.rendezvous}: the {hardware.nodes} nodes did not come "
            f"together ({error})"
        ) from error
    finally:
        logging.disable(logging.NOTSET)
    return FINISHED


def exit_code(failures: Mapping[int, Any]) -> int:
    """The exit code where not all processes finished; prints why.

    failures: torch's `ProcessFailure` by rank
    """
    by_agent = (-signal.SIGTERM, -signal.SIGINT)  # after another one's end
    known = (REFUSED, STOPPED, *by_agent)
    killed = [rank for rank, one in failures.items() if one.exitcode not in known]
    told = [one for one in failures.values() if "timestamp" in one.error_file_data]
    if killed:  # that is why others lost their connection
        print(f"error: worker {killed[0]} {ending(failures[killed[0]].exitcode)}", file=sys.stderr)
    elif told:
        print(min(told, key=lambda one: int(one.timestamp)).message, file=sys.stderr)
    elif all(one.exitcode != REFUSED for one in failures.values()):
        return STOPPED
    else:
        # on another node it says why, or nobody does, as where modules cannot be imported
        rank = min(failures)
        said = f"worker {rank} {ending(failures[rank].exitcode)}"
        print(f"error: {said}, or lost its connection to another", file=sys.stderr)
    return REFUSED


def variables(hardware: HardwareConfig) -> dict[str, str]:
    """What a run adds to the environment; torch and DeepSpeed read it when they are imported."""
    # threads that wait for each other sleep: where others need the cores, waiting in a busy loop
    # made an iteration take 1.7 times as long; on an idle machine no difference was seen
    unless_chosen = {"OMP_WAIT_POLICY": "PASSIVE"}
    if hardware.processes > 1:
        # more threads than cores would slow down all processes
        unless_chosen["OMP_NUM_THREADS"] = str(max(1, cores() // hardware.processes))
    if hardware.world > 1:
        unless_chosen["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # no warnings while nodes await each other
    # the device is named, so that DeepSpeed does not guess it and warn
    own = {"DS_ACCELERATOR": hardware.device, PARENT: str(os.getpid())}
    return {**unless_chosen, **os.environ, **own}


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


def leave(code: int) -> None:
    """End this process; threads of the process group may abort a normal exit."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
