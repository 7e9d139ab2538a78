"""Commits at which an experiment was repeated and gave the same numbers.

Code changes while records of earlier commits stay. Whether a change has left an experiment's runs
as they were is tried: its first iterations are repeated at both commits, on one machine.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cory.report.claims.measures import Lines
from cory.report.records.archive import Archived, write
from cory.runs.provenance import git
from cory.runs.run_dir import METRICS, read_lines, read_record

SAME_FILE = "same_code.json"  # beside the experiments of a scale, as refused.json
# of the sampling alone: a mistake in how they were computed was mended when there were records
DIAGNOSTICS = ("objective/sampler_gap",)


@dataclass(frozen=True)
class SameCode:
    """Two versions of the training code that gave one experiment the same numbers."""

    experiment: str  # with the paper's prefix
    commits: tuple[str, str]
    codes: tuple[str, str]  # digests of their training code (`gather.training_code`)
    iterations: int  # that were repeated
    words: tuple[str, ...]  # settings of the repetition beside experiment, scale and iterations
    device: str
    precision: Mapping[str, str]  # as in record.json: another machine may compute in another one

    @property
    def repeated(self) -> str:
        """What was repeated, and gave the same numbers."""
        first = "iteration gives" if self.iterations == 1 else f"{self.iterations} iterations give"
        return f"its first {first}" if self.iterations else "its evaluation gives"


def read_same(folder: Path) -> list[SameCode]:
    """What was found at a scale; ValueError names a file that cannot be read.

    folder: docs/results/<paper>/records/<scale>
    """
    path = folder / SAME_FILE
    if not path.exists():
        return []
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        return [_entry(**entry) for entry in entries]
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def _entry(
    commits: Sequence[str], codes: Sequence[str], words: Sequence[str], **rest: Any
) -> SameCode:
    (one, other), (before, after) = commits, codes
    return SameCode(commits=(one, other), codes=(before, after), words=tuple(words), **rest)


def add_same(folder: Path, entry: SameCode) -> None:
    """Write an entry beside the others; it takes the place of one with the same words."""
    others = [
        e for e in read_same(folder) if not (_about_same(e, entry) and e.words == entry.words)
    ]
    _write(folder, [*others, entry])


def remove_same(folder: Path, entry: SameCode) -> int:
    """Take out what was found of these codes before a difference was; returns how many entries."""
    every = read_same(folder)
    others = [e for e in every if not _about_same(e, entry)]
    if len(others) < len(every):
        _write(folder, others)
    return len(every) - len(others)


def _about_same(one: SameCode, other: SameCode) -> bool:
    return (one.experiment, {*one.codes}) == (other.experiment, {*other.codes})


def _write(folder: Path, entries: Iterable[SameCode]) -> None:
    every = sorted(entries, key=lambda e: (e.experiment, e.commits, e.words))
    lines = ",\n".join(json.dumps(asdict(e), ensure_ascii=False) for e in every)
    write(folder / SAME_FILE, f"[\n{lines}\n]\n")


def path_between(
    entries: Iterable[SameCode], run: Archived, code: str | None, other: str | None
) -> list[SameCode]:
    """Entries that lead from one code to another for this run's experiment; empty where none do.

    Only repetitions in the precision of the run count.
    """
    own = [
        entry
        for entry in entries
        if entry.experiment == run.experiment and entry.precision == run.record.get("precision")
    ]
    paths: dict[str | None, list[SameCode]] = {code: []}
    for _ in own:  # a path is no longer than all entries
        for entry in own:
            for start, end in (entry.codes, entry.codes[::-1]):
                if start in paths and end not in paths:
                    paths[end] = [*paths[start], entry]
    return paths.get(other, [])


def first_difference(one: Lines, other: Lines) -> str | None:
    """Where two runs first differ, in words; None where they are the same to the last digit.

    Metrics that nothing depends on (`DIAGNOSTICS`) are not looked at.
    """
    if len(one) != len(other):
        return f"{len(one)} lines and {len(other)}"
    for before, after in zip(one, other, strict=True):
        for metric in sorted(before.keys() | after.keys()):
            if metric.startswith(DIAGNOSTICS):
                continue
            had, has = before.get(metric, "missing"), after.get(metric, "missing")
            if had != has and not (had != had and has != has):  # not a number equals itself here
                return f"iteration {before.get('iteration')}: {metric} is {had} and {has}"
    return None


def repeated(commit: str, words: Sequence[str], folder: Path) -> tuple[Lines, dict[str, Any]]:
    """The metrics of a run at a commit of this checkout, and its record.

    folder: takes the checkout and the run
    ValueError where the run does not finish
    """
    tree, run_dir = folder / commit / "tree", folder / commit / "run"
    if git("worktree", "add", "--detach", str(tree), commit) is None:
        raise ValueError(f"commit {commit}: git cannot check it out to {tree}")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "cory.train", *words, f"run_dir={run_dir}"],
            cwd=tree,
            env=_environment(tree),
            capture_output=True,
            text=True,
        )
    finally:
        git("worktree", "remove", "--force", str(tree))
    record = read_record(run_dir)
    if done.returncode or record is None:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise ValueError(f"commit {commit}: {' '.join(said) or f'exit code {done.returncode}'}")
    lines = read_lines(run_dir / METRICS)
    if len(lines) != max(1, record["iterations"]):
        raise ValueError(f"commit {commit}: {METRICS} holds {len(lines)} lines")
    return lines, record


def compare(words: Sequence[str], commits: Sequence[str]) -> tuple[str | None, dict[str, Any]]:
    """Repeat a run at two commits.

    returns: where the results first differ, None if nowhere; and the record of the last repetition
    """
    with tempfile.TemporaryDirectory() as made:
        (one, _), (other, record) = (repeated(commit, words, Path(made)) for commit in commits)
    return first_difference(one, other), record


def _environment(tree: Path) -> Mapping[str, str]:
    """One thread, as small runs have; and the package of the tree in place of the installed one."""
    return os.environ | {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}


def full_name(commit: str) -> str:
    """The forty digits of a commit; ValueError where this checkout does not have it."""
    found = git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    if found is None:
        raise ValueError(
            f"this checkout has no commit {commit} (a shallow clone: git fetch --unshallow)"
        )
    return found
