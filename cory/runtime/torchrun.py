"""Runs several workers for one run, on this machine or as one of several nodes.

torch's elastic agent meets the other nodes, assigns ranks and starts the workers. It needs a
process of its own, as it takes over signals and logging; `launch.py` starts that process.
"""

import signal

if __name__ == "__main__":  # until the process listens, a signal ends it without a traceback
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import logging
import os
import socket
import sys
import tempfile
from pathlib import Path

from omegaconf import OmegaConf
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.elastic.rendezvous import RendezvousError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from cory.config import HardwareConfig
from cory.runs.run_dir import FAILED_NODE, STOP
from cory.runs.stored_settings import read_settings
from cory.runtime.watchdog import (
    LEFT,
    PARENT,
    REFUSED,
    STOPPED,
    WORKERS,
    Watch,
    ending,
    parent_watch,
)

JOIN_TIMEOUT = 1800  # seconds to wait for the other nodes; people type the commands


class Node:
    """This machine's workers: starts them, and ends them when the run cannot go on.

    folder: where the workers sign on
    """

    def __init__(self, run_dir: Path, hardware: HardwareConfig, folder: Path) -> None:
        self.run_dir = run_dir
        self.hardware = hardware
        self.folder = folder
        self._launcher = parent_watch()
        self._started = False

    def run(self) -> int:
        """Start the workers, wait for them, and return the exit code."""
        if self.hardware.nodes > 1:
            # workers start only once every node is here, so none has failed yet
            (self.run_dir / FAILED_NODE).unlink(missing_ok=True)
        os.environ[WORKERS] = str(self.folder)
        watch = Watch(self._launcher_gone, self._asked_before_the_start, self._other_node_failed)
        os.environ[PARENT] = str(os.getpid())  # the workers'
        try:
            elastic_launch(self._settings(), sys.executable)(
                "-m", "cory.runtime.worker", self.run_dir
            )
            code = 0
        except ChildFailedError as error:
            code = exit_code(error.failures)
        except RendezvousError as error:
            print(
                f"error: hardware.rendezvous={self.hardware.rendezvous}: the "
                f"{self.hardware.nodes} nodes did not come together ({error})",
                file=sys.stderr,
            )
            code = REFUSED
        watch.close()
        if code == REFUSED:
            self._tell_other_nodes()
        return code

    def _settings(self) -> LaunchConfig:
        hardware = self.hardware
        return LaunchConfig(
            min_nodes=hardware.nodes,
            max_nodes=hardware.nodes,
            nproc_per_node=hardware.processes,
            run_id=self.run_dir.resolve().name,
            rdzv_backend="c10d",
            # port 0: a free one, so that two runs on one machine do not meet
            rdzv_endpoint=hardware.rendezvous if hardware.nodes > 1 else "localhost:0",  # type: ignore[arg-type]  # refused by HardwareConfig
            rdzv_configs={"join_timeout": JOIN_TIMEOUT},
            max_restarts=0,
            monitor_interval=0.1,
            # not SIGTERM: workers get it themselves or read run_dir/stop, and may need long to save
            signals_to_handle="SIGHUP",
            logs_specs=DefaultLogsSpecs(log_dir=str(self.folder / "elastic")),
        )

    def _launcher_gone(self) -> int | None:
        code = self._launcher()
        if code is not None:
            self._tell_other_nodes()
        return code

    def _asked_before_the_start(self) -> int | None:
        """STOPPED if asked to stop before any worker started: there is nothing to save."""
        self._started |= any(path.name.isdigit() for path in self.folder.iterdir())
        return STOPPED if not self._started and (self.run_dir / STOP).exists() else None

    def _other_node_failed(self) -> int | None:
        """REFUSED if another node failed: its absence would block the workers here for minutes."""
        if self.hardware.nodes == 1 or not (self.run_dir / FAILED_NODE).exists():
            return None
        host = (self.run_dir / FAILED_NODE).read_text(encoding="utf-8")
        print(f"error: the part of the run on {host} failed, see what it said", file=sys.stderr)
        return REFUSED

    def _tell_other_nodes(self) -> None:
        if self.hardware.nodes > 1:
            (self.run_dir / FAILED_NODE).write_text(socket.gethostname(), encoding="utf-8")


def exit_code(failures: dict[int, ProcessFailure]) -> int:
    """The exit code where not all workers finished; prints how one died that said nothing."""
    codes = {rank: failure.exitcode for rank, failure in failures.items()}
    for rank, code in codes.items():
        # signals: from outside, or from the agent after another worker's end
        if code not in (REFUSED, STOPPED, LEFT, -signal.SIGTERM, -signal.SIGINT):
            print(f"error: worker {rank} {ending(code)}", file=sys.stderr)
            return REFUSED
    if REFUSED in codes.values():
        return REFUSED
    if {STOPPED, -signal.SIGTERM, -signal.SIGINT} & {*codes.values()}:
        return STOPPED
    print("error: the workers left because a process of the run is gone", file=sys.stderr)
    return REFUSED


def run_node() -> None:
    """`python -m cory.runtime.torchrun <run_dir>`; launch.py starts it."""
    logging.disable(logging.CRITICAL)  # the agent's; a worker that fails speaks for itself
    for number in (signal.SIGTERM, signal.SIGINT):  # see signals_to_handle
        signal.signal(number, lambda *_: None)  # not SIG_IGN, which the workers would inherit
    run_dir = Path(sys.argv[1])
    settings = read_settings(run_dir).hardware
    hardware = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(HardwareConfig), settings))
    assert isinstance(hardware, HardwareConfig)
    with tempfile.TemporaryDirectory(prefix="cory_") as folder:
        code = Node(run_dir, hardware, Path(folder)).run()
    sys.exit(code)


if __name__ == "__main__":
    run_node()
