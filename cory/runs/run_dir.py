"""A run directory on disk: its settings, whether the run is complete, and its lock."""

import fcntl
import hashlib
import json
import os
import re
import socket
import sys
import time
from pathlib import Path
from typing import IO, Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]  # mypy's stubs are not installed

from cory.config import ConfigError, as_before, require
from cory.runs.durable import fault_of, sync
from cory.runs.precision import as_begun

SETTINGS = "config.yaml"
OVERRIDES = "overrides.txt"
METRICS = "metrics.jsonl"
TIMES = "times.jsonl"
SAMPLES = "samples.jsonl"
OUTPUT = "output.txt"  # what a run of a sweep says while others work beside it
EVALUATION = "evaluation"  # folder of an unfinished evaluation's results so far
DEBATES = "debates"  # folder of the debates that data were collected from
CHECKPOINTS = "checkpoints"
AGENTS = "agents"
ITERATIONS = "iterations"  # folder of earlier agents: per iteration a folder like a run's own
RECORD = "record.json"
DIGESTS = "digests.json"  # length and SHA-256 of the records of an unfinished run
FILES = "files"  # in the record: length and SHA-256 of each file that the run has left
LOCK = "lock"  # held by the process that writes the records
STOP = "stop"  # while it exists, the run is asked to save and leave
FAILED_NODE = "failed"  # several nodes: the name of one whose part failed
TIME = re.compile(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d")  # as in conf/train.yaml


class WriteError(RuntimeError):
    """A file of the run could not be written, as on a full disk; one line."""


# settings that may differ between two starts of the same run
FREE = (
    "objective",
    "hardware",
    "wandb",
    "run_dir",
    "sweep",
    "checkpoint_every",
    "export_every",
    "keep_last",
    "parallel_runs",
    "preflight_only",
)

_held: list[IO[str]] = []  # closing the file would release the lock


def is_complete(run_dir: Path, cfg: DictConfig) -> bool:
    """Whether the run in the directory is finished; refuses a directory of another run."""
    settings = run_dir / SETTINGS
    instead = "delete it or choose another run_dir"
    saved = (run_dir / CHECKPOINTS).exists()
    if not settings.exists():
        require(not saved, f"run_dir={run_dir} holds checkpoints but no {SETTINGS}; {instead}")
        return False
    recorded = (run_dir / RECORD).exists()
    if not (saved or recorded or (run_dir / METRICS).exists()):
        return False  # an earlier start was refused before anything was done
    for name in (METRICS, TIMES, SAMPLES):
        require(not (run_dir / name).is_dir(), f"run_dir={run_dir}: {name} is a folder; {instead}")
    try:
        stored = OmegaConf.load(settings)
    except (OSError, YAMLError) as error:
        raise ConfigError(f"run_dir={run_dir} holds a {SETTINGS} that cannot be read") from error
    old, new = comparable_settings(stored), comparable_settings(as_begun(cfg, stored))
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
    fault = record_fault(run_dir) if recorded else None
    require(
        fault is None or saved,
        f"run_dir={run_dir} holds a finished run, but {fault}; put it back, or delete the "
        f"directory to run it again",
    )
    done = recorded and fault is None
    if recorded and not done:
        print(f"note: {run_dir} is not finished: {fault}", file=sys.stderr)
    if saved and not done:
        for key in ("nodes", "processes", "zero_stage"):
            ours, theirs = cfg.hardware[key], stored.hardware[key]
            require(
                ours == theirs,
                f"run_dir={run_dir} holds checkpoints made with hardware.{key}={theirs}, not "
                f"{ours}; go on with the same, or delete {CHECKPOINTS} to start again",
            )
    return done


def settings_of_run(run_dir: Path, key: str) -> DictConfig:
    """The settings that a run directory holds; ConfigError where they cannot be read.

    key: the setting and value that named the run, for the refusal
    """
    try:
        stored = OmegaConf.load(run_dir / SETTINGS)
    except (OSError, ValueError, YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(f"{key}: its {SETTINGS} cannot be read") from error
    if not isinstance(stored, DictConfig):
        raise ConfigError(f"{key}: its {SETTINGS} holds no settings")
    return stored


def read_record(run_dir: Path) -> dict[str, Any] | None:
    """The record of a finished run; None where there is none that can be read."""
    try:
        record = json.loads((run_dir / RECORD).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def record_fault(run_dir: Path, only: tuple[str, ...] | None = None) -> str | None:
    """Why a record is not believed; None where all that it names is there, to the last byte.

    Records of earlier versions name no files.

    only: look at these files alone
    """
    record = read_record(run_dir)
    if record is None:
        return f"its {RECORD} cannot be read"
    if not (run_dir / METRICS).is_file():
        return f"{METRICS} is not there"
    named = record.get(FILES, {})
    try:
        files = [
            (str(name), int(size), str(digest))
            for name, (size, digest) in named.items()
            if only is None or name in only
        ]
    except (AttributeError, TypeError, ValueError):
        return f"its {RECORD} lists no files"
    return fault_of(run_dir, files)


def as_stored(run_dir: Path, cfg: DictConfig) -> DictConfig:
    """The settings, with the precision of products that this run was started with before.

    As they are where the directory holds no settings, or other ones.
    """
    try:
        stored = OmegaConf.load(run_dir / SETTINGS)
    except (OSError, YAMLError):
        return cfg
    if not isinstance(stored, DictConfig):
        return cfg
    kept = as_begun(cfg, stored)
    return kept if comparable_settings(kept) == comparable_settings(stored) else cfg


def write_settings(run_dir: Path, cfg: DictConfig, overrides: list[str]) -> None:
    """Start a run directory with the resolved settings and the typed overrides."""
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        write_whole(run_dir / SETTINGS, OmegaConf.to_yaml(cfg, resolve=True))
        write_whole(run_dir / OVERRIDES, "".join(f"{line}\n" for line in overrides))
    except OSError as error:
        require(False, f"run_dir={run_dir} cannot be written: {error.strerror}")


def write_whole(path: Path, text: str, to_disk: bool = False) -> None:
    """Write a file in one step: a reader sees all of it or what was there before.

    to_disk: return once it is on the disk itself
    """
    partial = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    if to_disk:
        sync(partial)
    partial.replace(path)
    if to_disk:
        sync(path.parent)


def lock(run_dir: Path) -> IO[str]:
    """Lock a run directory until this process ends; refuses one that is in use.

    returns: the lock file; closing it releases the lock, unless a child process holds it, too
    """
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        file = (run_dir / LOCK).open("a+", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"run_dir={run_dir} cannot be written: {error.strerror}") from error
    for _ in range(10):  # `in_use` of another process may hold it for a moment
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
    """The process that holds the lock of a run directory, in words; None if none does."""
    try:
        with (run_dir / LOCK).open("r+", encoding="utf-8") as file:
            return _try_lock(file)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _try_lock(file: IO[str]) -> str | None:
    """Lock the file; if that fails, the holder in words."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        return file.read() or "another process"
    except OSError as error:  # some network file systems
        print(f"note: {file.name} cannot be locked ({error.strerror}); start a run only once")
    return None


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
        if not (other / SETTINGS).exists() or read_record(other) is not None or in_use(other):
            continue
        try:
            stored = OmegaConf.load(other / SETTINGS)
        except (OSError, YAMLError):
            continue
        if comparable_settings(stored) == comparable_settings(as_begun(cfg, stored)):
            return other
    return None


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
    """A hash of the settings that must be the same when a run is resumed."""
    flat = json.dumps(comparable_settings(cfg), sort_keys=True, default=str)
    return hashlib.sha256(flat.encode()).hexdigest()


def comparable_settings(cfg: Any) -> dict[str, Any]:
    """Settings by dotted keys, without those in FREE and those that are as before they came."""
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
    return as_before(flat)
