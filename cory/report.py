"""The records behind one table or figure: what is asked for, and which runs count."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from cory.claims import Lines
from cory.run_dir import METRICS, OVERRIDES, RECORD, SETTINGS, read_lines

# what a run behind a table may have been started with; anything else makes it another experiment
ALLOWED = ("experiment", "sweep", "seed", "scale", "hardware", "wandb")


@dataclass(frozen=True)
class Table:
    """What is asked for: one entry of conf/paper/<paper>.yaml, and the seeds of its sweep."""

    paper: str
    name: str
    scale: str
    conf: Path
    about: dict[str, Any]  # the whole file
    seeds: list[int]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """label, experiment, model, paper and source of each row.

        A label that names a model of the paper has another one for scales that exchange it.
        """
        rows: list[dict[str, Any]] = self.about["tables"][self.name]["rows"]
        return [row | {"label": row.get(f"label_{self.scale}", row["label"])} for row in rows]

    @property
    def claims(self) -> list[dict[str, Any]]:
        """The paper's statements, as cory/claims.py reads them."""
        claims: list[dict[str, Any]] = self.about["tables"][self.name]["claims"]
        return claims

    @property
    def window(self) -> int:
        """Iterations that a number is averaged over."""
        return int(self.about["window"])


@dataclass(frozen=True)
class Run:
    """A finished run."""

    name: str  # experiment/seedN
    path: Path
    record: dict[str, Any]
    settings: DictConfig
    overrides: list[str]
    lines: Lines

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return int(self.record["seed"])


@dataclass(frozen=True)
class Refused:
    """A run directory that does not count."""

    experiment: str
    name: str
    why: str
    seed: int | None = None  # of a run that finished


@dataclass
class Collected:
    """The runs of a table, and the ones that are left out."""

    counted: dict[str, dict[int, Run]]  # experiment -> seed -> run
    refused: list[Refused] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # about counted runs

    @property
    def runs(self) -> list[Run]:
        """The runs that count."""
        return [run for seeds in self.counted.values() for run in seeds.values()]


def load_table(conf: Path, paper: str, name: str, scale: str) -> Table:
    """The table's entry in conf/paper, or ValueError that names what there is."""
    path = conf / "paper" / f"{paper}.yaml"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml")))
        raise ValueError(f"{paper} is not a paper; choose one of {known}")
    about = OmegaConf.to_container(OmegaConf.load(path))
    assert isinstance(about, dict)
    if name not in about["tables"]:
        raise ValueError(f"{paper} has no {name}; choose one of {', '.join(about['tables'])}")
    if not (conf / "scale" / f"{scale}.yaml").exists():
        raise ValueError(f"--scale {scale}: there is no conf/scale/{scale}.yaml")
    sweep = OmegaConf.load(conf / "sweep" / f"{about['tables'][name]['sweep']}.yaml")
    seeds = [int(seed) for seed in str(sweep.hydra.sweeper.params.seed).split(",")]
    return Table(paper, name, scale, conf, {str(k): v for k, v in about.items()}, seeds)


def collect(table: Table, outputs: Path, allow_mixed: bool) -> Collected:
    """The runs of every experiment of the table, and by name those that cannot count.

    allow_mixed: count runs from a dirty tree or another commit, with a note
    """
    folder = outputs / "runs" / table.scale / "paper"  # conf/train.yaml: scale, then fidelity
    found = Collected({row["experiment"]: {} for row in table.rows})
    sound: list[Run] = []
    for experiment in found.counted:
        for settings in sorted((folder / experiment).glob(f"*/{SETTINGS}")):
            name = str(settings.parent.relative_to(folder))
            if not (settings.parent / RECORD).exists():
                found.refused.append(Refused(experiment, name, f"unfinished (no {RECORD})"))
                continue
            run = load_run(settings.parent, name)
            flaws = "; ".join(_flaws(run, table, experiment))
            if flaws:
                found.refused.append(Refused(experiment, name, flaws, run.seed))
            else:
                sound.append(run)
    commit = _common_commit(sound)
    for run in sound:
        experiment = run.record["experiment"]
        doubts, seeds = list(_doubts(run, commit)), found.counted[experiment]
        if doubts and not allow_mixed:
            found.refused.append(Refused(experiment, run.name, "; ".join(doubts), run.seed))
        elif run.seed in seeds:
            why = f"seed {run.seed} is already there as {seeds[run.seed].name}"
            found.refused.append(Refused(experiment, run.name, why, run.seed))
        else:
            seeds[run.seed] = run
            found.notes += [f"{run.name}: {doubt}" for doubt in doubts]
    return found


def load_run(run_dir: Path, name: str) -> Run:
    """A finished run as it lies on disk, or ValueError with its name."""
    try:
        settings = OmegaConf.load(run_dir / SETTINGS)
        assert isinstance(settings, DictConfig)
        record = json.loads((run_dir / RECORD).read_text(encoding="utf-8"))
        overrides = (run_dir / OVERRIDES).read_text(encoding="utf-8").splitlines()
        return Run(name, run_dir, record, settings, overrides, read_lines(run_dir / METRICS))
    except (OSError, ValueError) as error:
        raise ValueError(f"{run_dir} cannot be read: {error}") from None


def _flaws(run: Run, table: Table, experiment: str) -> Iterator[str]:
    """Why a run is not one of the table's, whatever the options."""
    record = run.record
    for key, value in {"experiment": experiment, "scale": table.scale}.items():
        if record[key] != value:
            yield f"{key} {record[key]}, not {value}"
    if run.seed not in table.seeds:
        yield f"seed {run.seed} is not of the sweep"
    for line in run.overrides:
        if re.split(r"[.=@/]", line.lstrip("+~"), maxsplit=1)[0] not in ALLOWED:
            yield f"started with {line}"
    digest = hashlib.sha256((run.path / SETTINGS).read_bytes()).hexdigest()
    if record["settings_sha256"] != digest:
        yield f"{SETTINGS} was changed after the run"
    if len(run.lines) != record["iterations"]:
        yield f"{METRICS} holds {len(run.lines)} of {record['iterations']} iterations"
    if len(run.lines) < 2 * table.window:
        yield f"{len(run.lines)} iterations are fewer than two windows of {table.window}"


def _doubts(run: Run, commit: str | None) -> Iterator[str]:
    """What makes a run's code unlike its neighbours'."""
    own = run.record["commit"]
    if own is None:
        yield "no commit is known"
    elif not run.record["clean"]:
        yield f"from a dirty tree (commit {own[:7]})"
    elif own != commit:
        yield f"commit {own[:7]}, not {(commit or '')[:7]} as its neighbours"


def _common_commit(runs: Sequence[Run]) -> str | None:
    """The commit of most clean runs; of two as frequent, the one that ran last."""
    clean = [run.record for run in runs if run.record["clean"] and run.record["commit"]]
    counts = Counter(record["commit"] for record in clean)
    last = {record["commit"]: record["began"] for record in sorted(clean, key=_began)}
    return max(counts, key=lambda commit: (counts[commit], last[commit]), default=None)


def _began(record: Mapping[str, Any]) -> str:
    return str(record["began"])
