"""A run directory on disk: what was asked, whether it is done, and who is at work in it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import socket
import time
from pathlib import Path
from typing import IO, Any

from omegaconf import DictConfig, OmegaConf
from yaml import YAMLError  # type: ignore[import-untyped]  # mypy's stubs are not installed

from cory.config import ConfigError, require

SETTINGS = "config.yaml"
OVERRIDES = "overrides.txt"
METRICS = "metrics.jsonl"
TIMES = "times.jsonl"
SAMPLES = "samples.jsonl"
EVALUATION = "evaluation"  # folder of what an unfinished evaluation has found so far
DEBATES = "debates"  # folder of what was said while data were collected
CHECKPOINTS = "checkpoints"
AGENTS = "agents"
ITERATIONS = "iterations"  # folder of agents as they were: a folder per iteration, like a run's own
RECORD = "record.json"
LOCK = "lock"  # held by the process that writes the records
STOP = "stop"  # while it exists, the run is asked to save and leave
FAILED_NODE = "failed"  # several nodes: the name of one whose part failed
TIME = re.compile(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d")  # as in conf/train.yaml


class WriteError(RuntimeError):
    """A file of the run could not be written, as on a full disk; one line."""


# what may differ between two starts of the same run
FREE = (
    "hardware",
    "wandb",
    "run_dir",
    "sweep",
    "checkpoint_every",
    "export_every",
    "keep_last",
    "preflight_only",
)

_held: list[IO[str]] = []  # closing the file would give the lock away


def is_complete(run_dir: Path, cfg: DictConfig) -> bool:
    """Whether the run is finished there; refuses a directory that holds another run."""
    settings = run_dir / SETTINGS
    instead = "delete it or choose another run_dir"
    saved = (run_dir / CHECKPOINTS).exists()
    if not settings.exists():
        require(not saved, f"run_dir={run_dir} holds checkpoints but no {SETTINGS}; {instead}")
        return False
    if not saved and not (run_dir / METRICS).exists():
        return False  # refused before anything was done, and now perhaps corrected
    try:
        stored = OmegaConf.load(settings)
    except (OSError, YAMLError) as error:
        raise ConfigError(f"run_dir={run_dir} holds a {SETTINGS} that cannot be read") from error
    old, new = _comparable(stored), _comparable(cfg)
    for key in ("model.name", "task.name", "algorithm.name", "reward.name", "seed"):
        require(key in old, f"run_dir={run_dir} holds a {SETTINGS} without {key}: torn; {instead}")
    other = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    if other:
        key = min(other, key=lambda key: (not key.endswith(".name"), key))
        require(
            False,
            f"run_dir={run_dir} holds a run with {key}={old.get(key)}, not {new.get(key)}; "
            f"{instead}",
        )
    done = (run_dir / RECORD).exists()
    if saved and not done:
        for key in ("nodes", "processes", "zero_stage"):
            ours, theirs = cfg.hardware[key], stored.hardware[key]
            require(
                ours == theirs,
                f"run_dir={run_dir} holds checkpoints made with hardware.{key}={theirs}, not "
                f"{ours}; go on with the same, or delete {CHECKPOINTS} to start again",
            )
    return done


def write_settings(run_dir: Path, cfg: DictConfig, overrides: list[str]) -> None:
    """Start a run directory: the resolved settings, and what was typed."""
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        write_whole(run_dir / SETTINGS, OmegaConf.to_yaml(cfg, resolve=True))
        write_whole(run_dir / OVERRIDES, "".join(f"{line}\n" for line in overrides))
    except OSError as error:
        require(False, f"run_dir={run_dir} cannot be written: {error.strerror}")


def write_whole(path: Path, text: str) -> None:
    """In one step: the workers of another node may be reading."""
    partial = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def lock(run_dir: Path) -> IO[str]:
    """Keep others out of a run directory until this process ends; refuses one that is in use.

    returns: the file that holds the lock; closing it gives the lock away, unless a process that
        was started with it lives on
    """
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        file = (run_dir / LOCK).open("a+", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"run_dir={run_dir} cannot be written: {error.strerror}") from error
    for _ in range(10):  # somebody may be looking for a moment
        holder = _try_lock(file)
        if holder is None:
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}")
            file.flush()
            _held.append(file)
            return file
        time.sleep(0.1)
    file.close()
    raise ConfigError(f"run_dir={run_dir} is in use by {holder}")


def in_use(run_dir: Path) -> str | None:
    """The process that is at work in a run directory, in words; None when there is none."""
    try:
        with (run_dir / LOCK).open("r+", encoding="utf-8") as file:
            return _try_lock(file)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _try_lock(file: IO[str]) -> str | None:
    """Lock the file, or say who has."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        return file.read() or "another process"
    except OSError as error:  # some network file systems
        print(f"note: {file.name} cannot be locked ({error.strerror}); start a run only once")
    return None


def named_by_time(run_dir: Path) -> bool:
    """Whether the directory is one that starts with the time, as those that nobody chose do."""
    return any(TIME.match(part) for part in run_dir.parts[-2:])


def unfinished(run_dir: Path, cfg: DictConfig) -> Path | None:
    """The newest of the runs beside `run_dir` that has these settings and that nobody finished.

    None where `run_dir` was chosen by name.
    """
    time_of = TIME.match(run_dir.name)
    if time_of is None:
        return None
    wanted = _comparable(cfg)
    for other in sorted(run_dir.parent.glob(f"*{run_dir.name[time_of.end() :]}"), reverse=True):
        if not (other / SETTINGS).exists() or (other / RECORD).exists() or in_use(other):
            continue
        try:
            stored = OmegaConf.load(other / SETTINGS)
        except (OSError, YAMLError):
            continue
        if _comparable(stored) == wanted:
            return other
    return None


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a .jsonl file."""
    # as bytes: text would also be cut at the line separators that responses may contain
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def settings_digest(cfg: DictConfig) -> str:
    """A name for everything that must be the same when a run goes on."""
    flat = json.dumps(_comparable(cfg), sort_keys=True, default=str)
    return hashlib.sha256(flat.encode()).hexdigest()


def _comparable(cfg: Any) -> dict[str, Any]:
    """Settings as dotted keys, without those that may differ."""
    flat: dict[str, Any] = {}

    def walk(node: Any, prefix: str) -> None:
        for key, value in node.items():
            if prefix == "" and key in FREE:
                continue
            if isinstance(value, dict):
                walk(value, f"{prefix}{key}.")
            else:
                flat[f"{prefix}{key}"] = value

    walk(OmegaConf.to_container(cfg, resolve=True), "")
    return flat
