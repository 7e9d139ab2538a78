"""A run with several processes, on this machine or as one of several nodes.

torch's elastic agent meets the other nodes, assigns ranks, starts the processes and ends them all
when one has failed.
"""

import logging
import os
import signal
import sys
import tempfile
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # its stubs are not installed
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.elastic.rendezvous import RendezvousError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from cory.config import HardwareConfig
from cory.runs.signals import PARENT, interruptible
from cory.runtime.launch import FINISHED, REFUSED, STOPPED, ending

JOIN_TIMEOUT = 1800  # seconds to wait for the other nodes; people type the commands


def run_workers(run_dir: Path, hardware: HardwareConfig) -> int:
    """Start this machine's processes of a run, wait for them, and return the exit code."""
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
    return not psutil.Process().children()


def exit_code(failures: dict[int, ProcessFailure]) -> int:
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
    silent = [rank for rank, message in told.items() if isinstance(message, str)]  # torch's text
    if silent:
        print(f"error: worker {silent[0]} {ending(REFUSED)}", file=sys.stderr)
    else:
        first = min(told.values(), key=lambda message: message["extraInfo"]["nanoseconds"])
        print(first["message"], file=sys.stderr)
    return REFUSED
