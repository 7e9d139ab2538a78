"""Mirrors the records of a run to trackio, whose dashboard runs on this machine.

All runs of a project lie in one database, in the folder TRACKIO_DIR of the environment or, without
it, in trackio's own in the cache of Hugging Face. What trackio prints of its start and end is left
out. Its logging raises nothing: where it fails, trackio warns and the run goes on.
"""

import io
import secrets
import shlex
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from cory.config import Config, ConfigError
from cory.episode import Episode, Metrics
from cory.runs.mirrors.description import COLUMNS, group_of, name_of, sample_rows, settings_of
from cory.runs.run_dir import write_whole
from cory.runs.stored_settings import read_settings

RUN_NAME = "trackio_name"  # file of the run directory
SAMPLES = "samples"  # name of the table


class TrackioMirror:
    """A trackio run, of the first process, where `trackio` names a project."""

    def __init__(self, config: Config, run_dir: Path) -> None:
        import trackio  # noqa: PLC0415  a second, and most runs do without

        self.table = trackio.Table
        try:
            with redirect_stdout(io.StringIO()):
                self.run: Any = trackio.init(
                    project=config.trackio,
                    name=run_name(config, run_dir),
                    group=group_of(config, run_dir),
                    config=settings_of(config, run_dir),
                    resume="allow",  # by name, which no other run has
                    embed=False,  # a notebook would get a dashboard
                )
        except ValueError as error:  # a project's name that it keeps for itself
            raise ConfigError(f"trackio={config.trackio}: {error}") from error

    def log(self, iteration: int, metrics: Metrics) -> None:
        """The metrics of one iteration, as its step."""
        self.run.log(dict(metrics), step=iteration)

    def log_samples(self, iteration: int, episodes: list[Episode]) -> None:
        """A table of this iteration's episodes: a row per turn."""
        rows = [list(row) for row in sample_rows(iteration, episodes)]
        self.run.log({SAMPLES: self.table(columns=list(COLUMNS), data=rows)}, step=iteration)

    def finish(self) -> None:
        """Write what is not yet in the database."""
        with redirect_stdout(io.StringIO()):
            self.run.finish()


def run_name(config: Config, run_dir: Path) -> str:
    """Name of the directory's trackio run, drawn once: `quickstart/seed0/1f3a9c`.

    trackio resumes a run by its name, so equal runs in two directories need two names.
    """
    path = run_dir / RUN_NAME
    if not path.exists():
        write_whole(path, f"{name_of(config, run_dir)}/{secrets.token_hex(3)}")
    return path.read_text(encoding="utf-8")


def show_hint(run_dir: Path) -> str:
    """How to look at the run in trackio; empty where it is not there."""
    project = read_settings(run_dir).trackio
    if project is None:
        return ""
    return f"trackio: to look at the run: {shlex.join(['trackio', 'show', '--project', project])}"
