"""What a mirror of a run's records does, and which mirrors a run has."""

from pathlib import Path
from typing import Protocol

from cory.config import Config
from cory.episode import Episode, Metrics
from cory.runs.mirrors.tensorboard import TensorBoard
from cory.runs.mirrors.trackio_mirror import TrackioMirror
from cory.runs.mirrors.wandb_mirror import WandbMirror


class Mirror(Protocol):
    """Gets what the records get."""

    def log(self, iteration: int, metrics: Metrics) -> None:
        """The metrics of one iteration."""
        ...

    def log_samples(self, iteration: int, episodes: list[Episode]) -> None:
        """Training episodes as text."""
        ...

    def finish(self) -> None:
        """The process logs nothing more, whether or not the run is finished."""
        ...


def mirrors_of(config: Config, run_dir: Path, commit: str | None, logged: int) -> list[Mirror]:
    """The mirrors that the settings ask for, begun.

    logged: iterations that the records have; of a resumed run those before its checkpoint
    """
    mirrors: list[Mirror] = []
    if config.wandb.mode != "disabled":
        mirrors.append(WandbMirror(config, run_dir, commit))
    if config.tensorboard:
        mirrors.append(TensorBoard(run_dir, logged))
    if config.trackio is not None:
        mirrors.append(TrackioMirror(config, run_dir))
    return mirrors
