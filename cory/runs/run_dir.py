"""A run directory on disk: its settings, whether the run is complete, and its lock."""

import hashlib
import json
import os
import re
import socket
import sys
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from cory.config import ConfigError, require
from cory.runs.durable import sync
from cory.runs.lock import LOCK, WORKER_LOCK, in_use
from cory.runs.stored_settings import (
    SETTINGS,
    as_written,
    comparable_settings,
    read_settings,
    require_every_group,
)
from cory.runs.sweeps.differences import VARIED

OVERRIDES = "overrides.txt"
METRICS = "metrics.jsonl"
TIMES = "times.jsonl"
SAMPLES = "samples.jsonl"
SCORES = "prompt_scores.jsonl"  # what each held-out prompt contributes to the evaluations' metrics
OUTPUT = "output.txt"  # what a run of a sweep says while others work beside it
DEBATES = "debates"  # folder of the debates that data were collected from
CHECKPOINTS = "checkpoints"
AGENTS = "agents"
ITERATIONS = "iterations"  # folder of earlier agents: per iteration a folder like a run's own
BEST = "best"  # folder of the agents with the best value of a metric, like a run's own
RECORD = "record.json"
MANIFEST = "manifest.json"  # of a whole checkpoint: SHA-256 of its files
FAILED_NODE = "failed"  # several nodes: the name of one whose part failed
ITERATIONS_KEY = "algorithm.iterations"  # the setting that may grow (cory/runs/extension.py)
TIME = re.compile(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d")  # as in conf/train.yaml


class WriteError(RuntimeError):
    """A file of the run could not be written, as on a full disk; one line."""


# what a command leaves before its workers begin
BEFORE_THE_START = (SETTINGS, OVERRIDES, VARIED, LOCK, WORKER_LOCK, OUTPUT, FAILED_NODE)
INSTEAD = "delete it or choose another run_dir"


def require_own(run_dir: Path) -> None:
    """Refuse a folder that a run may not write into: it is not empty, and no run by its settings.

    A run replaces records and agents in its folder, so that files of others would be lost.
    """
    said = f"run_dir={run_dir}"
    try:
        names = sorted(path.name for path in run_dir.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"{said} cannot be written: {error.strerror}") from error
    if SETTINGS in names:
        _stored(run_dir)
        return
    # a command that was refused or killed before it wrote settings may have left the others
    left = (LOCK, WORKER_LOCK)
    foreign = [n for n in names if n not in left and not n.startswith(f".{SETTINGS}.")]
    require(
        not foreign,
        f"{said} holds {', '.join(foreign[:3])}{', ...' if foreign[3:] else ''} but no {SETTINGS}: "
        f"it is no run; name a new or an empty folder",
    )


def remove_unbegun(run_dir: Path) -> None:
    """Remove what a run leaves that was refused by its workers before it began; else nothing."""
    if not run_dir.is_dir():  # moved or deleted
        return
    if any(path.name not in BEFORE_THE_START for path in run_dir.iterdir()):
        return
    for path in run_dir.iterdir():
        path.unlink()
    run_dir.rmdir()


def _stored(run_dir: Path) -> DictConfig:
    try:
        stored = read_settings(run_dir, f"run_dir={run_dir}")
        require_every_group(stored, f"run_dir={run_dir}")
    except ConfigError as error:
        raise ConfigError(f"{error}; {INSTEAD}") from error
    return stored


def is_complete(run_dir: Path, cfg: DictConfig, extends: bool = False) -> bool:
    """Whether the run in the directory is finished; refuses a directory of another run.

    extends: it is to get more iterations than it was begun with
    """
    require_own(run_dir)
    if not any(path.name not in BEFORE_THE_START for path in _files(run_dir)):
        return False  # an earlier start was refused before anything was done
    stored = _stored(run_dir)
    old, new = comparable_settings(stored), comparable_settings(cfg)
    other = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    record, wanted = read_record(run_dir), cfg.algorithm.iterations
    if other == [ITERATIONS_KEY] and (extends or has_iterations(record, wanted)):
        other = []
    if other:
        # more iterations would be allowed: then it is what else differs
        key = min(other, key=lambda key: (key == ITERATIONS_KEY, not key.endswith(".name"), key))
        require(
            False,
            f"run_dir={run_dir} holds a run with {key}={old.get(key)}, not {new.get(key)}; repeat "
            f"what it was begun with, which its {OVERRIDES} lists, or choose another run_dir",
        )
    done = has_iterations(record, wanted)
    if (run_dir / CHECKPOINTS).exists() and not done:
        for key in ("nodes", "processes", "zero_stage"):
            ours, theirs = cfg.hardware[key], stored.hardware[key]
            require(
                ours == theirs,
                f"run_dir={run_dir} holds checkpoints made with hardware.{key}={theirs}, not "
                f"{ours}; go on with the same"
                + ("" if extends else f", or delete {CHECKPOINTS} to start again"),
            )
    return done


def read_record(run_dir: Path) -> dict[str, Any] | None:
    """The record of a finished run; None where there is none that can be read."""
    try:
        record = json.loads((run_dir / RECORD).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def has_iterations(record: dict[str, Any] | None, total: int) -> bool:
    """Whether a record is of a finished run of so many iterations."""
    return record is not None and record.get("iterations") == total


def _files(run_dir: Path) -> list[Path]:
    """What is in a directory, without half-written files; empty where there is none."""
    if not run_dir.exists():
        return []
    return [path for path in run_dir.iterdir() if not path.name.startswith(".")]


def write_settings(run_dir: Path, cfg: DictConfig, overrides: list[str]) -> None:
    """Start a run directory with its settings (`as_written`) and the typed overrides."""
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        write_whole(run_dir / SETTINGS, OmegaConf.to_yaml(OmegaConf.create(as_written(cfg))))
        write_whole(run_dir / OVERRIDES, "".join(f"{line}\n" for line in overrides))
    except OSError as error:
        require(False, f"run_dir={run_dir} cannot be written: {error.strerror}")


def write_whole(path: Path, text: str) -> None:
    """Write a file to the disk itself, in one step: a reader sees it whole or as it was before."""
    partial = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    sync(partial)
    partial.replace(path)
    sync(path.parent)


def named_by_time(run_dir: Path) -> bool:
    """Whether the directory's name starts with the time, as the default names do."""
    return any(TIME.match(part) for part in run_dir.parts[-2:])


def unfinished_run(run_dir: Path, cfg: DictConfig) -> Path | None:
    """The newest unfinished run beside `run_dir` with the same settings.

    None where `run_dir` was chosen by name.
    """
    time_of = TIME.match(run_dir.name)
    if time_of is None:
        return None
    for other in sorted(run_dir.parent.glob(f"*{run_dir.name[time_of.end() :]}"), reverse=True):
        try:
            if _goes_on_as(other, cfg):
                return other
        except (ConfigError, OSError) as error:
            print(f"note: left out as no run to go on with: {error}", file=sys.stderr)
    return None


def _goes_on_as(other: Path, cfg: DictConfig) -> bool:
    """Whether a directory holds an unfinished run with these settings that nobody works on."""
    if not (other / SETTINGS).exists() or read_record(other) is not None or in_use(other):
        return False
    stored = read_settings(other)
    require_every_group(stored, str(other))
    return comparable_settings(stored) == comparable_settings(cfg)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a .jsonl file; ValueError with the number of one that is no JSON object."""
    lines = []
    # bytes: splitting text would also cut at Unicode line separators inside responses
    for number, row in enumerate(path.read_bytes().splitlines(), 1):
        try:
            lines.append(line_of(row))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
    return lines


def line_of(row: bytes | str) -> dict[str, Any]:
    """The value of a line of JSON; ValueError where it is no object with keys."""
    try:
        value = json.loads(row if isinstance(row, str) else row.decode("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value


def settings_digest(cfg: DictConfig) -> str:
    """A hash of the settings that must be the same when a run goes on; its length may grow."""
    settings = comparable_settings(cfg)
    settings.pop(ITERATIONS_KEY, None)
    flat = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(flat.encode()).hexdigest()
