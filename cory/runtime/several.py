"""A run with several processes, on this machine or as one of several nodes.

torch's elastic agent meets the other nodes, assigns ranks, starts the processes and ends them all
when one has failed.
"""

import logging
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # its stubs are not installed
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.elastic.rendezvous import RendezvousError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from cory.config import HardwareConfig
from cory.runs.run_dir import FAILED_NODE
from cory.runtime.launch import (
    FINISHED,
    PARENT,
    REFUSED,
    STOPPED,
    WATCH_S,
    ending,
    leave,
    when_asked_to_stop,
)

JOIN_TIMEOUT = 1800  # seconds to wait for the other nodes; people type the commands


def run_workers(run_dir: Path, hardware: HardwareConfig) -> int:
    """Start this machine's processes of a run, wait for them, and return the exit code."""
    over = threading.Event()
    if hardware.nodes > 1:
        # workers start only once every node is here, so none has failed yet
        (run_dir / FAILED_NODE).unlink(missing_ok=True)
        threading.Thread(target=leave_with_others, args=[run_dir, over], daemon=True).start()
    os.environ[PARENT] = str(os.getpid())
    with (
        tempfile.TemporaryDirectory(prefix="cory_") as folder,
        agent_is_silent(),
        when_asked_to_stop(tell_workers),
    ):
        code = start(run_dir, hardware, folder)
    over.set()
    if code == REFUSED and hardware.nodes > 1:
        (run_dir / FAILED_NODE).write_text(socket.gethostname(), encoding="utf-8")
    return code


def start(run_dir: Path, hardware: HardwareConfig, folder: str) -> int:
    """Start the processes and wait for them; folder: where they say why they failed."""
    settings = LaunchConfig(
        min_nodes=hardware.nodes,
        max_nodes=hardware.nodes,
        nproc_per_node=hardware.processes,
        run_id=run_dir.resolve().name,
        rdzv_backend="c10d",
        # port 0: a free one, so that two runs on one machine do not meet
        rdzv_endpoint=hardware.rendezvous if hardware.nodes > 1 else "localhost:0",  # type: ignore[arg-type]  # refused by HardwareConfig
        rdzv_configs={"join_timeout": JOIN_TIMEOUT},
        max_restarts=0,
        monitor_interval=0.1,
        signals_to_handle="",  # this process handles its signals itself
        logs_specs=DefaultLogsSpecs(log_dir=folder),
    )
    try:
        elastic_launch(settings, sys.executable)("-m", "cory.runtime.worker", run_dir)
    except ChildFailedError as error:
        return exit_code(error.failures)
    except RendezvousError as error:
        print(
            f"error: hardware.rendezvous={hardware.rendezvous}: the {hardware.nodes} nodes did not "
            f"come together ({error})",
            file=sys.stderr,
        )
        return REFUSED
    return FINISHED


@contextmanager
def agent_is_silent() -> Iterator[None]:
    """Without the agent's log: a process that fails says why."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def tell_workers() -> None:
    """Pass a request to stop on; where no process has been started, leave."""
    workers = psutil.Process().children()
    if not workers:
        raise KeyboardInterrupt
    print("\nstopping: the run saves and leaves (a second Ctrl-C ends it at once)", file=sys.stderr)
    for worker in workers:
        worker.send_signal(signal.SIGTERM)


def exit_code(failures: dict[int, ProcessFailure]) -> int:
    """The exit code where not all processes finished; prints why the first one failed.

    A process that was killed is the reason why others lost their connection to it; else what came
    first is the reason.
    """
    by_signal = (-signal.SIGTERM, -signal.SIGINT)  # by the agent, after another one's end
    codes = {rank: failure.exitcode for rank, failure in failures.items()}
    for rank, code in codes.items():
        if code not in (REFUSED, STOPPED, *by_signal):
            print(f"error: worker {rank} {ending(code)}", file=sys.stderr)
            return REFUSED
    if REFUSED in codes.values():
        told = [f.error_file_data["message"] for f in failures.values() if f.exitcode == REFUSED]
        first = min(told, key=lambda one: one["extraInfo"]["nanoseconds"])
        print(first["message"], file=sys.stderr)
        return REFUSED
    return STOPPED


def leave_with_others(run_dir: Path, over: threading.Event) -> None:
    """End this process, and so its workers, once another node's part of the run has failed.

    The workers here would otherwise wait for those of that node.

    over: set when this node's part has ended
    """
    while not over.wait(WATCH_S):
        if (run_dir / FAILED_NODE).exists():
            host = (run_dir / FAILED_NODE).read_text(encoding="utf-8")
            print(f"error: the part of the run on {host} failed, see what it said", file=sys.stderr)
            leave(REFUSED)
