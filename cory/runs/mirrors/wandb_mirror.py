"""Mirrors the records of a run to Weights & Biases."""

import secrets
import shlex
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from cory.config import Config
from cory.episode import Episode, Metrics
from cory.runs.mirrors.description import COLUMNS, group_of, name_of, sample_rows, settings_of
from cory.runs.run_dir import write_whole

RUN_ID = "wandb_id"  # file of the run directory
FOLDER = "wandb"  # made by W&B in the run directory
PROBE_S = 5  # seconds to wait for a connection to the server
FLUSH_S = 1  # W&B's default, 15 s, would lose that much of a killed run
SAMPLES = "samples"  # name of the table


class WandbMirror:
    """A W&B run, of the first process, where `wandb.mode` is not disabled."""

    def __init__(self, config: Config, run_dir: Path, commit: str | None) -> None:
        import wandb  # noqa: PLC0415  as in start

        self.run = start(config, run_dir, commit)
        self.samples = wandb.Table(columns=list(COLUMNS), log_mode="INCREMENTAL")
        self.run.define_metric("iteration")
        # W&B's own step counts calls, and goes on counting when a run is resumed
        self.run.define_metric("*", step_metric="iteration")

    def log(self, iteration: int, metrics: Metrics) -> None:
        """The metrics of one iteration."""
        self._call(lambda run: run.log({"iteration": iteration, **metrics}))

    def log_samples(self, iteration: int, episodes: list[Episode]) -> None:
        """One table that grows: a row per turn, of which only the new ones are sent."""
        self._call(lambda run: self._grow(run, iteration, episodes))

    def _grow(self, run: Any, iteration: int, episodes: list[Episode]) -> None:
        for row in sample_rows(iteration, episodes):
            # one after the other: a table that has been sent takes no other change
            self.samples.add_data(*row)
        run.log({"iteration": iteration, SAMPLES: self.samples})

    def finish(self) -> None:
        """Upload the rest, for no longer than `wandb.finish_timeout`."""
        import wandb  # noqa: PLC0415  as in start

        self._call(lambda run: run.finish())
        self._call(lambda run: wandb.teardown())  # its process may still be writing the last lines

    def _call(self, action: Callable[[Any], None]) -> None:
        """Call `action` on the W&B run; after a failure the run goes on without a mirror."""
        if self.run is None:
            return
        try:
            action(self.run)
        except Exception as error:  # W&B's errors share no class
            print(f"note: W&B broke down and gets no more: {error!r}", file=sys.stderr)
            self.run = None


def start(config: Config, run_dir: Path, commit: str | None) -> Any:
    """Start or resume the directory's W&B run; offline where the server cannot be used."""
    import wandb  # noqa: PLC0415  half a second, and most runs do without

    settings = config.wandb

    def begin(mode: Any) -> Any:
        return wandb.init(
            project=settings.project,
            mode=mode,
            dir=run_dir,
            id=run_id(run_dir),
            resume="allow",
            entity=settings.entity,
            group=settings.group or group_of(config, run_dir),
            name=settings.name or name_of(config, run_dir),
            notes=settings.notes,
            tags=[tag for tag in (*settings.tags, config.scale, commit and commit[:7]) if tag],
            config=settings_of(config, run_dir),
            settings=wandb.Settings(
                init_timeout=settings.init_timeout,
                finish_timeout=settings.finish_timeout,
                x_transaction_log_flush_interval=FLUSH_S,
                silent=True,
                disable_git=True,  # it would record the repository around run_dir, not this one
            ),
        )

    if settings.mode == "offline":
        return begin("offline")
    server = wandb.setup(settings=wandb.Settings(silent=True)).settings.base_url
    why = ""
    try:
        if not is_reachable(server, min(PROBE_S, settings.init_timeout)):
            why = f"{server} does not answer"
        elif not wandb.login(prompt=False, verify=False):  # on a terminal, init would ask
            why = "there is no API key; `wandb login` stores one"
        else:
            return begin("online")
    except wandb.errors.Error as error:
        why = str(error).splitlines()[0]
    print(
        f"note: W&B records offline, to be uploaded with `wandb sync`, because {why}",
        file=sys.stderr,
    )
    wandb.teardown()  # a start that failed half-way keeps the id in use
    return begin("offline")


def sync_hint(run_dir: Path) -> str:
    """Where the parts lie that were recorded offline, and how to upload them; empty without any.

    A start that resumes a run makes a part of its own; parts that were uploaded are left out.
    """
    parts = [
        folder
        for folder in sorted((run_dir / FOLDER).glob("offline-run-*"))
        if not any(folder.glob("*.synced"))
    ]
    if not parts:
        return ""
    command = shlex.join(["wandb", "sync", *map(str, parts)])
    return f"W&B: recorded offline in {run_dir / FOLDER}; to upload: {command}"


def run_id(run_dir: Path) -> str:
    """The id of the directory's W&B run; drawn once, so that a resumed run continues it."""
    path = run_dir / RUN_ID
    if not path.exists():
        write_whole(path, secrets.token_hex(8))
    return path.read_text(encoding="utf-8")


def is_reachable(url: str, seconds: float) -> bool:
    """Whether the server at `url` accepts a connection in time; assumed behind a proxy."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme in getproxies() and not proxy_bypass(host):
        return True
    port = parts.port or {"http": 80}.get(parts.scheme, 443)
    connected = threading.Event()

    def connect() -> None:
        with suppress(OSError), socket.create_connection((host, port), seconds):
            connected.set()

    # in a thread: looking up a name has no time limit of its own
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(seconds)
    return connected.is_set()
