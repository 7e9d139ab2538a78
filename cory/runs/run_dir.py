"""A run directory on disk: its settings, whose run it holds, how far that is, its lock."""

import hashlib
import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]  # mypy's stubs are not installed

from cory.config import ConfigError, flat, require
from cory.runs.files import write_whole

SETTINGS = "config.yaml"
# settings that may differ between two starts of the same run
FREE = (
    *("hardware", "run_dir", "sweep", "parallel_runs", "wandb", "tensorboard"),
    *("checkpoint_every", "export_every", "keep_last", "keep_best", "keep_best_mode"),
)
OVERRIDES = "overrides.txt"
METRICS = "metrics.jsonl"
TIMES = "times.jsonl"
SAMPLES = "samples.jsonl"
SCORES = "prompt_scores.jsonl"  # what each held-out prompt contributes to the evaluations' metrics
OUTPUT = "output.txt"  # what a run of a sweep says while others work beside it
CHECKPOINTS = "checkpoints"
GAMES = "games"  # folder of the games that were played to learn from: a file per set
AGENTS = "agents"
ITERATIONS = "iterations"  # folder of earlier agents: per iteration a folder like a run's own
BEST = "best"  # folder of the agents with the best value of a metric, like a run's own
RECORD = "record.json"
BENCHMARKS = "benchmarks.json"  # beside the agents, whose scores it has: new agents have none
MANIFEST = "manifest.json"  # of a whole checkpoint: SHA-256 of its files
PART = ".part"  # end of the name of a folder that is being written
TIME = re.compile(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d")  # as in conf/train.yaml

# A command holds `lock` while its run works; the process that writes the records `worker.lock`:
# where a command is killed, its workers live on for a moment, and those of the next one wait.
LOCK, WORKER_LOCK = "lock", "worker.lock"
WORKER_WAIT_S = 30.0  # workers look twice a second whether their command is there


def read_settings(run_dir: Path, said: str | None = None) -> DictConfig:
    """The settings in a run's directory; ConfigError, in one line, where that is impossible.

    said: how the refusal names the directory, such as `run_dir=<run_dir>`; None: by its path
    """
    said = said or str(run_dir)
    path = run_dir / SETTINGS
    require(path.is_file(), f"{said}: there is no run")
    try:
        stored = OmegaConf.load(path)
        assert isinstance(stored, DictConfig), "it is no mapping"
        resolved(stored)  # before anybody relies on a value: it may refer to nothing
    except (OSError, ValueError, YAMLError, OmegaConfBaseException, AssertionError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(f"{said} holds a {SETTINGS} that cannot be read ({reason})") from error
    return stored


def resolved(cfg: DictConfig) -> dict[str, Any]:
    values: Any = OmegaConf.to_container(cfg, resolve=True)
    return {str(key): value for key, value in values.items()}


def comparable_settings(cfg: DictConfig) -> dict[str, Any]:
    """Settings by dotted keys, without those in FREE; who samples decides what is said."""
    given = resolved(cfg)
    values = {key: value for key, value in given.items() if key not in FREE}
    sampler = given.get("hardware", {}).get("sampler", "own")  # earlier runs have none
    values["hardware"] = {"sampler": sampler}
    return {key: value for key, value in flat(values).items() if not isinstance(value, Mapping)}


def settings_digest(cfg: DictConfig) -> str:
    """A hash of the settings that must be the same when a run goes on."""
    text = json.dumps(comparable_settings(cfg), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def lock(run_dir: Path, name: str = LOCK, wait_s: float = 0.0) -> Iterator[None]:
    """Hold a lock of a run directory, which is made if it is not there.

    wait_s: seconds to wait for whoever holds it; ConfigError after that
    """
    held = FileLock(run_dir / name, thread_local=False)
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        held.acquire(timeout=wait_s)
    except Timeout:
        raise ConfigError(f"run_dir={run_dir} is in use by another process") from None
    except NotImplementedError:  # what FileLock raises where the system call is missing
        raise ConfigError(f"run_dir={run_dir} is on a file system without locks") from None
    except OSError as error:
        raise ConfigError(f"run_dir={run_dir} cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        held.release()


def require_own(run_dir: Path) -> None:
    """Refuse a folder that a run may not write into: it is not empty, and no run by its settings.

    A run replaces records and agents in its folder, so that files of others would be lost.
    """
    said = f"run_dir={run_dir}"
    try:
        names = sorted(path.name for path in run_dir.iterdir()) if run_dir.exists() else []
    except OSError as error:
        raise ConfigError(f"{said} cannot be written: {error.strerror}") from error
    if SETTINGS in names:
        of_run = "algorithm" in read_settings(run_dir, said)
        require(of_run, f"{said} holds a {SETTINGS} that is not of a run; name a new folder")
        return
    # a command that was refused or killed before it wrote settings may have left the others
    foreign = [n for n in names if n not in (LOCK, WORKER_LOCK) and not n.startswith(".")]
    require(
        not foreign,
        f"{said} holds {', '.join(foreign[:3])} but no {SETTINGS}: it is no run; name a new folder",
    )


def require_agents(run_dir: Path, said: str) -> DictConfig:
    """The settings of a run, or of an iteration of one, that has left agents; else ConfigError.

    said: how the refusal names it, such as `init_from=<run_dir>`
    """
    settings, agents = read_settings(run_dir, said), run_dir / AGENTS
    require(agents.is_dir(), f"{said}: the run has no agents; they appear when it finishes")
    return settings


def prepare(run_dir: Path, cfg: DictConfig, words: list[str]) -> bool:
    """Write the settings into the run directory; False where the run in it is complete.

    ConfigError for the directory of another run. words: as typed, for overrides.txt
    """
    require_own(run_dir)
    saved, whole = _saved(run_dir), read_record(run_dir) is not None
    done = [run_dir / METRICS, *run_dir.glob(f"{GAMES}/*")]
    # else nothing was done, and what is wrong may be put right in the same folder
    if whole or saved or any(path.exists() and path.stat().st_size > 0 for path in done):
        theirs, ours = comparable_settings(read_settings(run_dir)), comparable_settings(cfg)
        other = [key for key in theirs.keys() | ours.keys() if theirs.get(key) != ours.get(key)]
        key = min(other, key=lambda key: (not key.endswith(".name"), key), default="")
        require(
            not other,
            f"run_dir={run_dir} holds a run with {key}={theirs.get(key)}, not {ours.get(key)}; "
            f"repeat what it was begun with ({OVERRIDES} lists it), or choose another run_dir",
        )
        if whole:
            shutil.rmtree(run_dir / CHECKPOINTS, ignore_errors=True)  # it may have been killed then
            print(f"{run_dir} is complete; delete it to run it again")
            return False
        where = f"after iteration {max(saved)}" if any(saved) else "from its start"
        print(f"goes on with the run in {run_dir} {where} (delete it to start afresh)")
    write_settings(run_dir, cfg, words)
    return True


def _saved(run_dir: Path) -> list[int]:
    """After how many iterations each whole checkpoint is."""
    places = (file.parent.name for file in (run_dir / CHECKPOINTS).glob(f"*/{MANIFEST}"))
    return [int(name) for name in places if name.isdecimal()]  # others are being written


def runs_below(folder: Path) -> list[Path]:
    """The run directories in or below a folder; what a run keeps of earlier agents is no run."""
    found = {path.parent for path in folder.rglob(SETTINGS)}
    return sorted(run for run in found if not any(above in found for above in run.parents))


def read_record(run_dir: Path) -> dict[str, Any] | None:
    """The record of a finished run; None where there is none that can be read."""
    try:
        record = json.loads((run_dir / RECORD).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def read_benchmarks(run_dir: Path) -> dict[str, Any]:
    """The scores of a run's agents in benchmarks: by agent, then by benchmark."""
    path = run_dir / AGENTS / BENCHMARKS
    return json.loads(path.read_bytes()) if path.is_file() else {}  # type: ignore[no-any-return]


def write_settings(run_dir: Path, cfg: DictConfig, overrides: list[str]) -> None:
    """Start a run directory with its resolved settings and the typed overrides."""
    run_dir.mkdir(parents=True, exist_ok=True)
    write_whole(run_dir / SETTINGS, OmegaConf.to_yaml(OmegaConf.create(resolved(cfg))))
    write_whole(run_dir / OVERRIDES, "".join(f"{line}\n" for line in overrides))


def unfinished_run(run_dir: Path, cfg: DictConfig) -> Path | None:
    """The newest unfinished run beside `run_dir` with the same settings.

    None where `run_dir` was chosen by name.
    """
    time_of = TIME.match(run_dir.name)
    if time_of is None:
        return None
    settings = comparable_settings(cfg)
    for other in sorted(run_dir.parent.glob(f"*{run_dir.name[time_of.end() :]}"), reverse=True):
        if not (other / SETTINGS).exists() or read_record(other) is not None:
            continue
        try:
            if comparable_settings(read_settings(other)) == settings:
                return other
        except ConfigError as error:
            print(f"note: left out as no run to go on with: {error}", file=sys.stderr)
    return None
