"""Starting the worker process of a run directory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from cory.run_dir import RECORD

REFUSED = 1  # the worker's exit code after it has said why in one line


def launch(run_dir: Path, device: str) -> bool:
    """Run the worker in a process of its own; whether it finished the run."""
    command = [sys.executable, "-m", "cory.worker", str(run_dir)]
    # told which device it is, DeepSpeed does not guess and warn
    environment = {**os.environ, "DS_ACCELERATOR": device}
    # in a session of its own: Ctrl-C reaches this process only, which then ends the worker
    worker = subprocess.Popen(command, env=environment, start_new_session=True)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        code = worker.wait()
    except BaseException:  # Ctrl-C or SIGTERM: the worker must not go on alone
        worker.terminate()
        worker.wait()
        print(f"interrupted; the run in {run_dir} is unfinished", file=sys.stderr)
        raise
    if code not in (0, REFUSED):
        print(f"error: the worker of {run_dir} ended with exit code {code}", file=sys.stderr)
    return (run_dir / RECORD).exists()  # the record decides: a process may die after its work
