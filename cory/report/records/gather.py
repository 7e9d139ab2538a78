"""Gathering: copy finished runs from outputs/ into the archive, and name those refused."""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from omegaconf import OmegaConf

from cory.report.paper import PAPER_SCALE
from cory.report.records import archive
from cory.report.records.archive import Archived, Probe, Refused
from cory.report.records.benchmarks import (
    benchmark_metrics,
    lost,
    merged,
    without,
    without_benchmarks,
)
from cory.runs.lock import in_use
from cory.runs.provenance import git
from cory.runs.run_dir import (
    METRICS,
    OVERRIDES,
    RECORD,
    SAMPLES,
    read_lines,
    read_record,
)
from cory.runs.stored_settings import SETTINGS, read_settings

FIDELITY = "paper"  # the one that pages are about
# as cory/evaluation/responses.py marks lines of samples.jsonl; importing it takes seconds
PROBE_LINE = "probe"
# what a run behind a table may have been started with; anything else makes it another experiment
ALLOWED = (
    "experiment",
    "sweep",
    "seed",
    "scale",
    "hardware",
    "wandb",
    "tensorboard",
    "checkpoint_every",
    "parallel_runs",
)
# ... and one setting of a part: in which precision products are computed, which pages name
ALLOWED_KEY = "model.compute_precision"
# the training code: commits that agree in it give the same runs from the same settings
TRAINS = ("cory", "pyproject.toml")
# plots: at older commits
ELSE = re.compile(r"cory/(report|plots)/")


@dataclass
class Gathered:
    """The result of one gathering: runs by name."""

    written: list[str] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what was replaced, or not, and why


def gather(
    experiments: Sequence[str],
    seeds: Sequence[int],
    scale: str,
    outputs: Path,
    folder: Path,
    allow_dirty: bool,
) -> Gathered:
    """Bring the archive of a scale up to date with outputs/; what is not there stays as it was.

    seeds: that the sweeps ask for
    folder: docs/results/<paper>/records/<scale>
    allow_dirty: take runs from a dirty tree, too; pages then say so
    """
    done = Gathered()
    source = outputs / "runs" / scale / FIDELITY  # conf/train.yaml
    looked_at = {name for name in experiments if (source / name).is_dir()}
    for experiment in sorted(looked_at):
        taken: dict[int, str] = {}
        for settings in sorted((source / experiment).glob(f"*/{SETTINGS}")):
            run_dir = settings.parent
            name = str(run_dir.relative_to(source))
            if not (run_dir / RECORD).exists():
                done.refused.append(Refused(experiment, name, why_unfinished(run_dir), None))
                continue
            run = load_run(run_dir, experiment, scale)
            flaws = [*_flaws(run, run_dir, experiment, scale, seeds)]
            flaws += [] if allow_dirty else doubts(run)
            seed = int(run.record["seed"])
            if not flaws and seed in taken:
                flaws.append(f"seed {seed} is already there as {taken[seed]}")
            if flaws:
                done.refused.append(Refused(experiment, name, "; ".join(flaws), seed))
                continue
            taken[seed] = name
            _store(run, folder, done)
    if looked_at:
        others = [r for r in archive.read_refused(folder) if r.experiment not in looked_at]
        everything = [*others, *done.refused]
        archive.write_refused(folder, sorted(everything, key=lambda r: (r.experiment, r.name)))
    return done


def load_run(run_dir: Path, experiment: str, scale: str) -> Archived:
    """Read a finished run from its directory, or raise ValueError with its name.

    experiment, scale: what its folder says
    """
    try:
        settings = read_settings(run_dir)
        record = read_record(run_dir)
        if record is None:
            raise ValueError(f"its {RECORD} is no record")
        typed = (run_dir / OVERRIDES).read_text(encoding="utf-8").splitlines()
        overrides = [word for word in typed if not word.startswith("-")]  # a folder of options
        plain = OmegaConf.to_container(settings)
        assert isinstance(plain, dict)
        lines = read_lines(run_dir / METRICS)
        if lines:  # benchmarks are run on the agents that the last iteration left
            lines[-1] |= benchmark_metrics(record)
        return Archived(
            experiment=experiment,
            seed=int(record["seed"]),
            scale=scale,
            fidelity=fidelity_of(overrides),
            record={key: value for key, value in record.items() if key != "final"},
            code=training_code(record["commit"]),
            overrides=overrides,
            settings={str(key): value for key, value in plain.items() if key != "run_dir"},
            lines=lines,
            probes=probes_of(run_dir),
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{run_dir} cannot be read: {error!r}") from None


def fidelity_of(overrides: Sequence[str]) -> str:
    """The fidelity that a run was started with; paper unless it was named."""
    named = [line.partition("=")[2] for line in overrides if line.startswith("fidelity=")]
    return named[-1] if named else PAPER_SCALE


def doubts(run: Archived) -> list[str]:
    """Reasons to doubt which code a run was made with."""
    commit = run.record["commit"]
    if commit is None:
        return ["no commit is known"]
    if len(run.record.get("commits", [commit])) > 1:
        return [
            f"went on under other code (commits {', '.join(map(short, run.record['commits']))})"
        ]
    return [] if run.record["clean"] else [f"from a dirty tree (commit {short(commit)})"]


def short(commit: str | None) -> str:
    """The first seven digits of a commit, as pages show it."""
    return (commit or "unknown")[:7]


def why_unfinished(run_dir: Path) -> str:
    """Why a run has no record: it is still running, has diverged, or has failed."""
    try:
        lines = read_lines(run_dir / METRICS) if (run_dir / METRICS).exists() else []
        asked = OmegaConf.select(read_settings(run_dir), "algorithm.iterations")
    except (OSError, ValueError) as error:
        return f"damaged ({error})"
    so_far = f"{len(lines)} of {asked} iterations, no {RECORD}"
    if in_use(run_dir):
        return f"still at work when looked at ({so_far})"
    numbers = [value for value in (lines or [{}])[-1].values() if isinstance(value, float)]
    if not all(map(math.isfinite, numbers)):
        return f"diverged ({so_far}; its last line holds numbers that are not finite)"
    return f"failed or stopped ({so_far})"


@lru_cache
def training_code(commit: str | None) -> str | None:
    """A digest of the training code at a commit; None where git does not know the commit."""
    listed = git("ls-tree", "-r", "--full-tree", commit, "--", *TRAINS) if commit else None
    if not listed:
        return None
    lines = [line for line in listed.splitlines() if not ELSE.match(line.partition("\t")[2])]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _flaws(
    run: Archived, run_dir: Path, experiment: str, scale: str, seeds: Sequence[int]
) -> Iterator[str]:
    """Reasons why a run is not one of the sweep's, whatever the options."""
    record = run.record
    for key, value in {"experiment": experiment, "scale": scale}.items():
        if record[key] != value:
            yield f"{key} {record[key]}, not {value}"
    if run.seed not in seeds:
        yield f"seed {run.seed} is not of the sweep"
    for line in run.overrides:
        key = line.lstrip("+~").partition("=")[0]
        if re.split("[.@/]", key, maxsplit=1)[0] not in ALLOWED and key != ALLOWED_KEY:
            yield f"started with {line}"
    digest = hashlib.sha256((run_dir / SETTINGS).read_bytes()).hexdigest()
    if record["settings_sha256"] != digest:
        yield f"{SETTINGS} was changed after the run"
    # a run without training has one line, of its evaluation
    if len(run.lines) != max(record["iterations"], 1):
        yield f"{METRICS} holds {len(run.lines)} of {record['iterations']} iterations"


def _store(run: Archived, folder: Path, done: Gathered) -> None:
    """Write a run, unless the archive holds a better one; say so wherever it holds another."""
    path = archive.path_of(folder, run)
    old = archive.load_record(path) if path.exists() else None
    # the same record but for benchmarks, which are added to it later: the same run
    same = old is not None and without(old.record) == without(run.record)
    if old is not None and same:
        run = _with_benchmarks_of(old, run)
    text = archive.encode(run)
    if old is not None and archive.encode(old) == text:
        return
    if old is not None and not same:
        theirs = f"its own run of commit {short(old.record['commit'])}"
        keeps = _keeps(old, run)
        if keeps:
            done.notes.append(f"{run.name}: the archive keeps {theirs}: {keeps}")
            return
        done.notes.append(
            f"{run.name}: the archive had {theirs}, replaced by one of commit "
            f"{short(run.record['commit'])}"
            + (", and lost its benchmarks" if lost(old.record, run.record) else "")
        )
    archive.write(path, text)
    done.written.append(run.name)


def _with_benchmarks_of(old: Archived, run: Archived) -> Archived:
    """The same run, with the benchmarks that the archive has and the run directory has not."""
    record = merged(old.record, run.record)
    lines = without_benchmarks(run.lines)
    if lines:
        lines[-1] |= benchmark_metrics(record)
    return replace(run, record=record, lines=lines)


def _keeps(old: Archived, new: Archived) -> str:
    """Why the archive keeps its run; empty where the new run replaces it."""
    if old.record["clean"] and not new.record["clean"]:
        return "its tree was clean"
    if archive.same_results(old, new) and not lost(new.record, old.record):
        return "the new one has the same numbers"
    if old.record["began"] > new.record["began"]:
        return f"it began later ({old.record['began']})"
    return ""


def probes_of(run_dir: Path) -> list[Probe]:
    """The answers to the probes, from samples.jsonl."""
    found: list[Probe] = []
    if not (run_dir / SAMPLES).exists():
        return found
    with (run_dir / SAMPLES).open("rb") as file:
        for raw in file:
            if PROBE_LINE.encode() not in raw:  # the file may hold millions of other responses
                continue
            line = json.loads(raw)
            if line["kind"] == PROBE_LINE:
                how = "greedy" if line["sample"] is None else "sampled"
                (turn,) = line["turns"]
                found.append(Probe(line["who"], line["prompt"], how, turn["response"]))
    return found
