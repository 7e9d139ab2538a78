"""More iterations for a run that was begun with fewer: `algorithm.iterations` may grow.

A finished run goes on from its kept training state. Before anything of it is changed, its agents,
settings and record are put into `iterations/<n>`, where they stay. `extended.json` lists the
extensions; the record has the same list.
"""

import json
import os
import shlex
import shutil
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from cory.config import Config, ConfigError, MaftConfig, require
from cory.config.algorithm import CONSTANT
from cory.runs.durable import fault_of, sync, sync_folders
from cory.runs.environment_values import FILE as VALUES
from cory.runs.precision import as_begun
from cory.runs.run_dir import (
    AGENTS,
    CHECKPOINTS,
    DIGESTS,
    FILES,
    ITERATIONS,
    ITERATIONS_KEY,
    MANIFEST,
    METRICS,
    OVERRIDES,
    RECORD,
    is_shorter,
    read_record,
    record_fault,
    remove_unbegun,
    settings_digest,
    write_whole,
)
from cory.runs.stored_settings import SETTINGS, comparable_settings, read_settings

HISTORY = "extended.json"


@dataclass(frozen=True)
class Extension:
    """One decision to train longer."""

    earlier: int  # iterations that the run was to have, or had
    total: int  # ... and has from now on
    finished: bool  # it had finished with the earlier ones; they are kept in iterations/<earlier>
    at: str  # when, ISO 8601 in UTC


def extensions_of(run_dir: Path) -> list[Extension]:
    """The extensions of a run so far, oldest first; ConfigError where the file is damaged."""
    path = run_dir / HISTORY
    if not path.exists():
        return []
    try:
        return [Extension(**entry) for entry in json.loads(path.read_bytes())]
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise ConfigError(
            f"{path} cannot be read: it says which checkpoints are this run's; put it back"
        ) from error


def accepted_digests(run_dir: Path, settings: DictConfig) -> list[str]:
    """`settings_digest` of the run as it is, then as it was before each extension."""
    found = [settings_digest(settings)]
    for extension in extensions_of(run_dir):
        earlier = settings.copy()
        OmegaConf.update(earlier, ITERATIONS_KEY, extension.earlier)
        found.append(settings_digest(earlier))
    return list(dict.fromkeys(found))


def finished_part(run_dir: Path) -> int:
    """The iterations of the last finished run that this one extends: it never goes back further."""
    return max((one.earlier for one in extensions_of(run_dir) if one.finished), default=0)


def extension_of(run_dir: Path, cfg: DictConfig, config: Config) -> Extension | None:
    """The extension that a command asks for; None where it asks for none.

    ConfigError, in one line, where the run cannot have the iterations that are asked for.
    """
    if not (run_dir / SETTINGS).exists() or not (run_dir / METRICS).exists():
        return None
    stored = read_settings(run_dir)
    wanted, earlier = config.algorithm.iterations, OmegaConf.select(stored, ITERATIONS_KEY)
    if not isinstance(earlier, int) or earlier == wanted:
        return None
    theirs, ours = comparable_settings(stored), comparable_settings(as_begun(cfg, stored))
    for settings in (theirs, ours):
        settings.pop(ITERATIONS_KEY)
    if theirs != ours:
        return None  # another run altogether, which is refused by what differs
    said = f"run_dir={run_dir}"
    require(
        wanted > earlier,
        f"{said} holds a run of algorithm.iterations={earlier}, not {wanted}: a run can be given "
        f"more iterations, not fewer; choose another run_dir",
    )
    require(
        config.hardware.nodes == 1,
        f"{said}: algorithm.iterations cannot grow from {earlier} to {wanted} on several machines "
        f"at once; hardware.nodes=1 extends a run that was begun so, init_from={run_dir} begins a "
        f"new run from its agents",
    )
    # a kill may have left the record of a part that is set aside already
    finished = (run_dir / RECORD).exists() and not is_shorter(read_record(run_dir), earlier)
    if finished:
        require_state(run_dir, earlier, wanted)
    place = newest_state(run_dir)
    require_same_training(config, earlier, 0 if place is None else int(place.name), said)
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return Extension(earlier, wanted, finished, now)


def require_state(run_dir: Path, earlier: int, wanted: int) -> None:
    """Refuse a finished run that has lost files, or that kept no training state."""
    fault = record_fault(run_dir)
    require(
        fault is None,
        f"run_dir={run_dir} holds a finished run, but {fault}; put it back before the run goes on",
    )
    place = run_dir / CHECKPOINTS / f"{earlier:06d}"
    if not (place / MANIFEST).is_file():
        raise ConfigError(
            f"run_dir={run_dir} holds a finished run of {earlier} iterations that kept no training "
            f"state, so it cannot go on to {wanted}: run it again with keep_state=true, or begin a "
            f"new run from its agents with init_from={run_dir}"
        )
    try:
        named = json.loads((place / MANIFEST).read_bytes())["files"]
        listed = [(str(name), int(size), str(digest)) for name, (size, digest) in named.items()]
        fault = fault_of(place, listed)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        fault = f"its {MANIFEST} cannot be read"
    require(
        fault is None,
        f"run_dir={run_dir}: the training state {place} is damaged ({fault}), so the run cannot go "
        f"on to {wanted} iterations; init_from={run_dir} begins a new run from its agents",
    )


def newest_state(run_dir: Path) -> Path | None:
    """The newest checkpoint by its name; None where there is none."""
    found = [path for path in (run_dir / CHECKPOINTS).glob("*") if path.name.isdigit()]
    return max(found, default=None)


def why_it_cannot_grow(config: Config, earlier: int) -> str | None:
    """Why a run of so many iterations cannot be the first part of a longer one; None: it can."""
    algorithm = config.algorithm
    if getattr(algorithm, "iterations_per_epoch", 1) is None:
        return (
            f"with algorithm.iterations_per_epoch=null its {earlier} iterations learn from one set "
            f"of games, which was played for that many"
        )
    rounded = isinstance(algorithm, MaftConfig) and algorithm.start == "previous"
    if rounded and earlier == 1 and config.model.precision != "fp32":
        return (
            f"a run of one iteration keeps agents in model.precision={config.model.precision} "
            f"alone, and a longer one in float32; begin a new run"
        )
    return None


def command_to_go_on(run_dir: Path, iterations: int) -> str:
    """The command that gives a finished run twice its iterations, with all that was typed."""
    own = ("run_dir=", f"{ITERATIONS_KEY}=", "hydra")
    typed = (run_dir / OVERRIDES).read_text(encoding="utf-8").splitlines()
    kept = [word for word in typed if not word.lstrip("+~").startswith(own)]
    words = [*kept, f"{ITERATIONS_KEY}={2 * iterations}", f"run_dir={run_dir}"]
    return f"python -m cory.train {shlex.join(words)}"


def require_same_training(config: Config, earlier: int, done: int, said: str) -> None:
    """Refuse where what is done cannot be the first part of a run of the new length.

    done: iterations before the newest checkpoint
    """
    algorithm, wanted = config.algorithm, config.algorithm.iterations
    if done == 0:
        return
    refused = f"{said} cannot go on to algorithm.iterations={wanted}"
    obstacle = why_it_cannot_grow(config, earlier)
    require(obstacle is None, f"{refused}: {obstacle}")
    if not algorithm.follows_run_length():
        return
    schedule, warmup = algorithm.schedule, algorithm.warmup
    if schedule == CONSTANT and done >= warmup * wanted:
        print(f"note: {said}: its algorithm.warmup={warmup:g} was a share of {earlier} iterations")
        return
    require(
        config.stretch_schedule,
        f"{refused} at the rate it ended with: algorithm.schedule={schedule} with algorithm.warmup="
        f"{warmup:g} ran over {earlier} iterations; stretch_schedule=true goes on from iteration "
        f"{done + 1} with the rates of a run of {wanted}",
    )


def begin(run_dir: Path, extension: Extension) -> None:
    """Keep the finished part aside, and list the extension; the new settings are written next.

    A kill at any moment leaves the finished run as it was, or one that goes on.
    """
    earlier = extension.earlier
    try:
        if extension.finished:
            _set_aside(run_dir, earlier)
            record = read_record(run_dir) or {}
            records = {k: v for k, v in record[FILES].items() if "/" not in k}  # no agents
            write_whole(run_dir / DIGESTS, json.dumps(records, indent=1) + "\n", to_disk=True)
        # one that was cut off before the settings were written is made again
        before = [one for one in extensions_of(run_dir) if one.earlier < earlier]
        _write_history(run_dir, [*before, extension])
    except OSError as error:
        raise ConfigError(f"run_dir={run_dir} cannot be written: {error.strerror}") from error
    end = "finished" if extension.finished else "unfinished"
    print(f"{run_dir}: the {end} run of {earlier} iterations goes on to {extension.total}")


def drop_earlier_record(run_dir: Path, total: int) -> None:
    """Remove the record of fewer iterations, which `begin` has put aside: the run is unfinished."""
    if is_shorter(read_record(run_dir), total):
        (run_dir / RECORD).unlink()


def undo_refused(run_dir: Path) -> None:
    """Leave things as they were before a run that its workers refused before it began."""
    remove_unbegun(run_dir)
    take_back(run_dir)


def take_back(run_dir: Path) -> None:
    """Make a run finished again whose extension was refused by its workers before it began."""
    history = extensions_of(run_dir)
    if not history or not history[-1].finished or (run_dir / RECORD).exists():
        return
    earlier = history[-1].earlier
    place = run_dir / ITERATIONS / str(earlier)
    record = read_record(place)
    newest = newest_state(run_dir)
    if record is None or newest is None or int(newest.name) != earlier:
        return
    files = [(str(name), int(size), str(sha)) for name, (size, sha) in record[FILES].items()]
    if fault_of(run_dir, files) is not None:  # something has been trained
        return
    _write_history(run_dir, history[:-1])
    for name in (OVERRIDES, VALUES, SETTINGS, RECORD):
        if (place / name).exists():
            text = (place / name).read_text(encoding="utf-8")
            write_whole(run_dir / name, text, to_disk=True)
    shutil.rmtree(place)
    (run_dir / DIGESTS).unlink(missing_ok=True)
    if not any(place.parent.iterdir()):
        place.parent.rmdir()
    print(f"{run_dir}: the finished run of {earlier} iterations is as it was")


def _write_history(run_dir: Path, history: list[Extension]) -> None:
    if not history:
        (run_dir / HISTORY).unlink(missing_ok=True)
        return
    text = json.dumps([asdict(one) for one in history], indent=1) + "\n"
    write_whole(run_dir / HISTORY, text, to_disk=True)


def _set_aside(run_dir: Path, earlier: int) -> None:
    """Agents, settings, record and scores of the finished run, a folder that `init_from` takes.

    The files of the agents are linked, not copied, where the file system has links.
    """
    place = run_dir / ITERATIONS / str(earlier)
    part = place.with_name(f"{place.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for name in (SETTINGS, OVERRIDES, VALUES, RECORD):
        if (run_dir / name).exists():
            shutil.copy(run_dir / name, part / name)
            sync(part / name)
    if (run_dir / AGENTS).is_dir():
        shutil.copytree(run_dir / AGENTS, part / AGENTS, copy_function=_link)
    sync_folders(part)
    shutil.rmtree(place, ignore_errors=True)
    part.rename(place)
    sync(place.parent)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copy2(source, target)
