"""Copies of a run's records for W&B, TensorBoard and trackio; nothing is ever read back from there.

Each of the three libraries is imported only by the runs that use it. `log` gets the metrics of an
iteration, `log_samples` training episodes; `close` is called whether or not the run is finished.
"""

import io
import math
import re
import secrets
import shlex
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from cory.config import Config, ConfigError
from cory.episode import Episode, Metrics
from cory.runs.files import write_whole
from cory.runs.run_dir import TIME, read_settings, resolved

LONGEST = 128  # characters of a name or a group that W&B takes
COLUMNS = ("iteration", "prompt", "role", "agent", "context", "response", "score", "credit")
SAMPLES = "samples"  # name of the table or text of training episodes
WANDB, WANDB_ID = "wandb", "wandb_id"  # folder and file of the run directory
TENSORBOARD = "tensorboard"  # folder of the run directory
TRACKIO_NAME = "trackio_name"  # file of the run directory
FLUSH_S = 1  # W&B's default, 15 s, would lose that much of a killed run


class WandbMirror:
    """A W&B run, offline where the server cannot be used."""

    def __init__(self, config: Config, run_dir: Path, commit: str | None) -> None:
        import wandb  # noqa: PLC0415  half a second, and most runs do without

        settings = config.wandb
        begin = dict(
            project=settings.project,
            dir=run_dir,
            id=drawn_once(run_dir / WANDB_ID, ""),
            resume="allow",
            entity=settings.entity,
            group=settings.group or group_of(config, run_dir),
            name=settings.name or name_of(config, run_dir),
            notes=settings.notes,
            tags=[*settings.tags, config.scale, *([commit[:7]] if commit else [])],
            config=resolved(read_settings(run_dir)),
            settings=wandb.Settings(
                init_timeout=settings.init_timeout,
                finish_timeout=settings.finish_timeout,
                x_transaction_log_flush_interval=FLUSH_S,
                silent=True,
                disable_git=True,  # it would record the repository around run_dir, not this one
            ),
        )
        self.run: Any = None
        if settings.mode == "online":
            wandb.setup(settings=wandb.Settings(silent=True))
            try:
                # on a terminal, init would ask for the key
                if not wandb.login(prompt=False, verify=False):
                    raise wandb.errors.Error("there is no API key; `wandb login` stores one")
                self.run = wandb.init(mode="online", **begin)
            except wandb.errors.Error as error:
                why = str(error).splitlines()[0]
                said = f"W&B records offline, to be uploaded with `wandb sync`, because {why}"
                print(f"note: {said}", file=sys.stderr)
                wandb.teardown()  # a start that failed half-way keeps the id in use
        if self.run is None:
            self.run = wandb.init(mode="offline", **begin)
        # one table that grows, of which only the new rows are sent
        self.table = wandb.Table(columns=list(COLUMNS), log_mode="INCREMENTAL")
        self.run.define_metric("iteration")
        # W&B's own step counts calls, and goes on counting when a run is resumed
        self.run.define_metric("*", step_metric="iteration")

    def log(self, iteration: int, metrics: Metrics) -> None:
        self.run.log({"iteration": iteration, **metrics})

    def log_samples(self, iteration: int, episodes: list[Episode]) -> None:
        for row in sample_rows(iteration, episodes):
            self.table.add_data(*row)
        self.run.log({"iteration": iteration, SAMPLES: self.table})

    def close(self) -> None:
        """Upload the rest, for no longer than `wandb.finish_timeout`."""
        import wandb  # noqa: PLC0415  it is loaded by now

        self.run.finish()
        wandb.teardown()  # its process may still be writing the last lines


class TensorBoardMirror:
    """Event files in the folder tensorboard/ of the run directory."""

    def __init__(self, run_dir: Path, logged: int) -> None:
        """logged: iterations that are kept; TensorBoard forgets later ones of an earlier start."""
        # two seconds, and most runs do without
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415

        # a new file for each start; `purge_step` in it makes readers drop what is logged again
        self.writer = SummaryWriter(str(run_dir / TENSORBOARD), purge_step=logged)

    def log(self, iteration: int, metrics: Metrics) -> None:
        """One scalar for each metric; those that are no finite number have no point."""
        for name, value in metrics.items():
            if math.isfinite(value):
                self.writer.add_scalar(name, value, iteration)
        self.writer.flush()  # a killed run keeps what it has logged

    def log_samples(self, iteration: int, episodes: list[Episode]) -> None:
        """None: TensorBoard has no tables; samples.jsonl has them."""

    def close(self) -> None:
        self.writer.close()


class TrackioMirror:
    """A run of trackio, whose dashboard runs on this machine.

    All runs of a project lie in one database, in the folder TRACKIO_DIR of the environment or,
    without it, in trackio's own in the cache of Hugging Face. What trackio prints of its start and
    end is left out.
    """

    def __init__(self, config: Config, run_dir: Path) -> None:
        import trackio  # noqa: PLC0415  a second, and most runs do without

        self.table = trackio.Table
        try:
            with redirect_stdout(io.StringIO()):
                self.run: Any = trackio.init(
                    project=config.trackio,
                    # trackio resumes a run by its name: equal runs in two folders need two
                    name=drawn_once(run_dir / TRACKIO_NAME, f"{name_of(config, run_dir)}/"),
                    group=group_of(config, run_dir),
                    config=resolved(read_settings(run_dir)),
                    resume="allow",
                    embed=False,  # a notebook would get a dashboard
                )
        except ValueError as error:  # a project's name that it keeps for itself
            raise ConfigError(f"trackio={config.trackio}: {error}") from error

    def log(self, iteration: int, metrics: Metrics) -> None:
        self.run.log(dict(metrics), step=iteration)

    def log_samples(self, iteration: int, episodes: list[Episode]) -> None:
        rows = [list(row) for row in sample_rows(iteration, episodes)]
        self.run.log({SAMPLES: self.table(columns=list(COLUMNS), data=rows)}, step=iteration)

    def close(self) -> None:
        with redirect_stdout(io.StringIO()):
            self.run.finish()


Mirror = WandbMirror | TensorBoardMirror | TrackioMirror


def mirrors_of(config: Config, run_dir: Path, commit: str | None, logged: int) -> list[Mirror]:
    """The mirrors that the settings ask for, begun.

    logged: iterations that the records have; of a resumed run those that are kept
    """
    mirrors: list[Mirror] = []
    if config.wandb.mode != "disabled":
        mirrors.append(WandbMirror(config, run_dir, commit))
    if config.tensorboard:
        mirrors.append(TensorBoardMirror(run_dir, logged))
    if config.trackio is not None:
        mirrors.append(TrackioMirror(config, run_dir))
    return mirrors


def name_of(config: Config, run_dir: Path) -> str:
    """Experiment and folder: `quickstart/algorithm.kl_coef-0.3_seed-0`."""
    return f"{config.experiment}/{run_dir.name}"[:LONGEST]


def group_of(config: Config, run_dir: Path) -> str:
    """Runs that differ in their seed alone: sweep, experiment, and the folder without its seed."""
    sweep = "" if config.sweep == "adhoc" else config.sweep
    own = "" if TIME.match(run_dir.name) else run_dir.name
    own = re.sub(rf"(_|^)seed-?{config.seed}(?!\d)", "", own).strip("_")
    return ", ".join(filter(None, [sweep, config.experiment, own]))[:LONGEST]


def drawn_once(file: Path, head: str) -> str:
    """A name with a random end, kept in a file, so that a resumed run continues under it."""
    if not file.exists():
        write_whole(file, f"{head}{secrets.token_hex(4)}")
    return file.read_text(encoding="utf-8")


def sample_rows(iteration: int, episodes: list[Episode]) -> list[tuple[Any, ...]]:
    """A row of `COLUMNS` for each turn."""
    return [
        (iteration, one.prompt.id, t.role, t.agent, t.context, t.response, t.score, t.credit)
        for one in episodes
        for t in one.turns
    ]


def print_hints(run_dir: Path) -> None:
    """The last lines of a run that W&B has offline, or trackio has: where to look at it."""
    offline = sorted((run_dir / WANDB).glob("offline-run-*"))
    parts = [str(folder) for folder in offline if not any(folder.glob("*.synced"))]
    if parts:
        command = shlex.join(["wandb", "sync", *parts])
        print(f"W&B: recorded offline in {run_dir / WANDB}; to upload: {command}")
    project = read_settings(run_dir).trackio
    if project is not None:
        print(
            f"trackio: to look at the run: {shlex.join(['trackio', 'show', '--project', project])}"
        )
