"""The records of a run: metrics, times, samples, prompt_scores (.jsonl), record.json.

W&B and TensorBoard get copies, from which nothing is ever read back. Each of the two libraries is
imported only by the runs that use it.
"""

import json
import math
import os
import platform
import re
import resource
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import torch

from cory import distributed
from cory.config import Config, require
from cory.episode import Episode, Metrics, further_columns
from cory.runs.files import Line, append_lines, keep_lines, whole_lines, write_whole
from cory.runs.run_dir import METRICS, RECORD, SAMPLES, SCORES, TIME, TIMES, read_settings, resolved

TRAINING = "training"  # kind of line in samples.jsonl; evaluation/ and the loop write the others
PACKAGES = (  # that results depend on
    "cory", "torch", "transformers", "deepspeed", "peft", "bitsandbytes", "hydra-core", "omegaconf",
    "datasets", "wandb", "numpy",
)  # fmt: skip
TURN = ("agent", "role", "round", "context", "response", "score", "credit")  # in samples.jsonl
FILES = (METRICS, TIMES, SAMPLES, SCORES)
WHAT_RUNS = (":/cory", ":/conf", ":/pyproject.toml")  # docs and results do not count
LONGEST = 128  # characters of a name or a group that W&B takes
COLUMNS = ("iteration", "prompt", "role", "agent", "context", "response", "score", "credit")
TABLE = "samples"  # name of the table of training episodes
WANDB, WANDB_ID = "wandb", "wandb_id"  # folder and file of the run directory
TENSORBOARD = "tensorboard"  # folder of the run directory
FLUSH_S = 1  # W&B's default, 15 s, would lose that much of a killed run


class WandbMirror:
    """A W&B run, offline where the server cannot be used."""

    def __init__(self, config: Config, run_dir: Path, commit: str | None) -> None:
        import wandb  # noqa: PLC0415  half a second, and most runs do without

        settings, self.teardown = config.wandb, wandb.teardown
        kept = run_dir / WANDB_ID  # a resumed run continues under its id
        if not kept.exists():
            write_whole(kept, secrets.token_hex(4))
        begin = dict(
            project=settings.project,
            dir=run_dir,
            id=kept.read_text(encoding="utf-8"),
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
        for prompt, t in ((one.prompt.id, turn) for one in episodes for turn in one.turns):
            said = t.role, t.agent, t.context, t.response, t.score, t.credit
            self.table.add_data(iteration, prompt, *said)
        self.run.log({"iteration": iteration, TABLE: self.table})

    def close(self) -> None:
        """Upload the rest, for no longer than `wandb.finish_timeout`."""
        self.run.finish()
        self.teardown()  # its process may still be writing the last lines


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


Mirror = WandbMirror | TensorBoardMirror


def name_of(config: Config, run_dir: Path) -> str:
    """Experiment and folder: `imdb_cory/algorithm.kl_coef-0.3_seed-0`."""
    return f"{config.experiment}/{run_dir.name}"[:LONGEST]


def group_of(config: Config, run_dir: Path) -> str:
    """Runs that differ in their seed alone: sweep, experiment, and the folder without its seed."""
    sweep = "" if config.sweep == "adhoc" else config.sweep
    own = "" if TIME.match(run_dir.name) else run_dir.name
    own = re.sub(rf"(_|^)seed-?{config.seed}(?!\d)", "", own).strip("_")
    return ", ".join(filter(None, [sweep, config.experiment, own]))[:LONGEST]


def print_hints(run_dir: Path) -> None:
    """The last line of a run that W&B has offline: how it is uploaded."""
    parts = sorted(map(str, (run_dir / WANDB).glob("offline-run-*")))
    if parts:
        print(f"W&B: recorded offline; to upload: {shlex.join(['wandb', 'sync', *parts])}")


class Recorder:
    """Writes a run's records; lines are on the disk itself as soon as they are logged.

    Only the first process writes; the others have one that does nothing.
    """

    def __init__(self, run_dir: Path, config: Config) -> None:
        self.writes = distributed.rank() == 0
        self.run_dir = run_dir
        self.config = config
        self.opened = time.time()
        self.began, self.earlier_s = self.opened, 0.0
        # of the start: the checkout may change while the run lasts
        self.commit = git("rev-parse", "HEAD")
        self.clean = git("status", "--porcelain", "--", *WHAT_RUNS) == ""
        self.mirrors: list[Mirror] = []
        self.last: Metrics = {}

    def start(self, done: int, state: dict[str, Any] | None) -> None:
        """Begin the records, or cut them back to what they were when a checkpoint was written.

        done: iterations before the checkpoint; state: of `state_dict`; None at the beginning
        ConfigError where less is there than the checkpoint relies on.
        """
        if not self.writes:
            return
        sizes = dict.fromkeys(FILES, 0)
        print(f"run in {self.run_dir}", flush=True)  # cory/notebook.py reads it
        if state is not None:
            self.began, self.earlier_s, self.last = state["began"], state["wall_s"], state["last"]
            self.clean = self.clean and state["clean"] and state["commit"] == self.commit
            sizes = state["sizes"]
            print(f"resumed after iteration {done}", flush=True)
        kept = {}
        for name, size in sizes.items():
            path = self.run_dir / name
            content = kept[path] = whole_lines(path)[:size]
            require(
                len(content) == size,
                f"{path} is not what the run has written: of the {size} bytes before the newest "
                f"checkpoint only {len(content)} are there; put them back, or delete the folder "
                f"to start again",
            )
        for path, content in kept.items():
            keep_lines(path, content)
        if self.config.wandb.mode != "disabled":
            self.mirrors.append(WandbMirror(self.config, self.run_dir, self.commit))
        if self.config.tensorboard:
            logged = kept[self.run_dir / METRICS].count(b"\n")
            self.mirrors.append(TensorBoardMirror(self.run_dir, logged))

    def log(self, iteration: int, metrics: Metrics) -> None:
        """A line of metrics.jsonl, and of times.jsonl, which no repeated run has again."""
        times = {key: value for key, value in metrics.items() if key.startswith("time/")}
        numbers = {key: value for key, value in metrics.items() if key not in times}
        self.last |= numbers
        self._mirror(lambda mirror: mirror.log(iteration, metrics))
        if times:
            self.log_lines([{"iteration": iteration, **times}], TIMES)
        # it marks the iteration as done
        self.log_lines([{"iteration": iteration, **numbers}], METRICS)

    def log_samples(self, iteration: int, episodes: list[Episode]) -> None:
        """Episodes as text, one line each, with scores and credits."""
        lines = []
        for one in episodes:
            turns = [
                {name: getattr(turn, name) for name in TURN}
                | {"response": None if turn.absent else turn.response}
                | further_columns(turn)
                for turn in one.turns
            ]
            line = {"iteration": iteration, "kind": TRAINING, "prompt_id": one.prompt.id}
            lines.append(line | {"prompt": one.prompt.text, "turns": turns})
        self.log_lines(lines)
        self._mirror(lambda mirror: mirror.log_samples(iteration, episodes))

    def log_lines(self, lines: list[Line], name: str = SAMPLES) -> None:
        """Lines of samples.jsonl, or of another of the run's files."""
        if self.writes:
            append_lines(self.run_dir / name, lines)

    def _mirror(self, action: Callable[[Mirror], None]) -> None:
        """Let each mirror do this; one that fails gets no more, and the run goes on."""
        for mirror in list(self.mirrors):
            try:
                action(mirror)
            except Exception as error:  # their errors share no class
                distributed.note(f"{type(mirror).__name__} broke and gets no more: {error!r}")
                self.mirrors.remove(mirror)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps: lengths of files, last values, start, seconds, commit."""
        return {
            "sizes": {n: (self.run_dir / n).stat().st_size for n in FILES} if self.writes else {},
            "began": self.began,
            "wall_s": self._wall_s(),
            "last": dict(self.last),
            "commit": self.commit,
            "clean": self.clean,
        }

    def finish(self) -> None:
        """Write record.json, which marks the run as complete."""
        if not self.writes:
            return
        config = self.config
        on_gpu, unit = config.hardware.device == "cuda", 1 if sys.platform == "darwin" else 1024
        most = unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peak = torch.cuda.max_memory_allocated() if on_gpu else most
        record = {
            "experiment": config.experiment,
            "sweep": config.sweep,
            "scale": config.scale,
            "seed": config.seed,
            "iterations": config.algorithm.iterations,
            "final": self.last,
            "commit": self.commit,
            "clean": self.clean,
            "packages": {one.name: one.version for one in distributions() if one.name in PACKAGES},
            "python": platform.python_version(),
            "device": device_name(config.hardware.device),
            "threads": torch.get_num_threads(),
            "began": datetime.fromtimestamp(self.began, timezone.utc).isoformat(timespec="seconds"),
            "wall_s": round(self._wall_s(), 1),
            "peak_memory_gib": round(peak / 2**30, 3),
        }
        write_whole(self.run_dir / RECORD, json.dumps(record, indent=1) + "\n")

    def close(self) -> None:
        """Close the mirrors, whether or not the run finished."""
        self._mirror(lambda mirror: mirror.close())

    def _wall_s(self) -> float:
        """Seconds of work over all starts, without the time in between."""
        return self.earlier_s + time.time() - self.opened


def git(*words: str) -> str | None:
    """Output of a git command in the checkout of this package; None where it lies in no such."""
    here = Path(__file__).resolve()
    for command in (("ls-files", "--error-unmatch", here.name), words):
        git = ["git", "-C", str(here.parent), *command]
        try:
            answer = subprocess.run(git, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
    return answer.stdout.strip()


def device_name(device: str) -> str:
    cpu = f"CPU {platform.machine()}, {os.cpu_count()} cores"
    return str(torch.cuda.get_device_name()) if device == "cuda" else cpu
