"""Starting the worker process of a run directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from cory.run_dir import RECORD

REFUSED = 1  # the worker's exit code after it has said why in one line


def launch(run_dir: Path, device: str) -> bool:
    """Run the worker in a process of its own; whether it finished the run."""
    command = [sys.executable, "-m", "cory.worker", str(run_dir)]
    # told which device it is, DeepSpeed does not guess and warn
    worker = subprocess.Popen(command, env={**os.environ, "DS_ACCELERATOR": device})
    try:
        code = worker.wait()
    except KeyboardInterrupt:
        worker.wait()
        raise
    if (run_dir / RECORD).exists():  # the record decides: a process may die after its work
        return True
    if code != REFUSED:
        print(f"error: the worker of {run_dir} ended with exit code {code}", file=sys.stderr)
    return False
