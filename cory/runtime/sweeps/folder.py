"""The folder of a sweep that never began: Hydra makes it, and writes to it, before it refuses."""

import contextlib
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

MULTIRUN = "multirun.yaml"  # what Hydra writes before the first job

_known: list[Path] = []


class SweepFolder(Callback):
    """Remembers where the sweep of this command lies; conf/train.yaml names it to Hydra."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Before Hydra looks at any job."""
        _known[:] = [Path(config.hydra.sweep.dir)]


def remove_unbegun_sweep() -> None:
    """Remove the folder of this command's sweep where Hydra's own file is all there is in it."""
    for folder in _known:
        if [path.name for path in folder.glob("*")] != [MULTIRUN]:
            continue
        (folder / MULTIRUN).unlink()
        remove_empty(folder.absolute())
    _known.clear()


def remove_empty(folder: Path) -> None:
    """Remove an empty folder, and those above it that become empty; folder: absolute.

    Hydra makes its output folders before a job can be refused or put elsewhere. Commands that share
    a file system, as on several nodes, may remove the same ones.
    """
    with contextlib.suppress(OSError):  # another command was first, or writes into it
        while folder.is_dir() and folder != Path.cwd() and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent
