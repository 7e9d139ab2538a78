"""All that the page shows, as one value for JSON."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cory.evaluation.prompt_scores import BEFORE
from cory.report.agent_names import split_name
from cory.report.axis_names import AXES
from cory.report.board.lines import Column, rounded, strides, thinned
from cory.report.board.read import Run, read_run
from cory.report.board.settings import differences, flat
from cory.report.board.texts import Strings, chosen, packed
from cory.report.conclusions import HEADLINES, title
from cory.report.run_groups import find_runs, group_runs, without_repeats
from cory.runs.run_dir import ITERATIONS

# shown first, of those that the runs have
FIRST = (
    "objective/score",
    "objective/kl",
    "objective/combined",
    "eval/win_rate",
    "eval/vote",
    "eval/score",
    "offline/loss",
    "verifier/accuracy",
    "supervised/loss",
    "eval/pass_at_1",
)
# what a run is judged by: the first of these that it has; the last of one that is not evaluated yet
JUDGED = (*HEADLINES, "objective/score/.+")
PANELS = 3
EVALUATION = "eval/"
FACTS = ("commit", "clean", "device", "precision", "python", "began", "wall_s", "iterations")


@dataclass
class Limits:
    """How much of the runs the page holds."""

    points: int = 300  # of one line
    prompts: int = 16  # of one agent in one evaluation


@dataclass
class Read:
    """The runs below some folders, and what is to be said about those that are not shown."""

    runs: list[Run]
    notes: list[str] = field(default_factory=list)


def read_all(folders: Sequence[Path]) -> Read:
    """Read every run; those that are damaged or have no metrics yet are left out with a note.

    Raises ValueError where no run is left.
    """
    found, without = find_runs(folders, unfinished=True)
    # folders of earlier agents look like runs, but have no metrics of their own
    waiting = [run_dir for run_dir in without if run_dir.parent.name != ITERATIONS]
    read = Read([], [f"{run_dir}: no metrics yet" for run_dir in waiting])
    for run_dir in found:
        try:
            read.runs.append(read_run(run_dir))
        except (ValueError, OSError, KeyError, TypeError, AttributeError) as error:
            # whatever a damaged file makes of a run, the others are shown
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            read.notes.append(said if str(run_dir) in said else f"{run_dir}: {said}")
    if not read.runs:
        raise ValueError(f"no run can be shown: {'; '.join(read.notes)}")
    return read


def page_data(read: Read, limits: Limits) -> dict[str, Any]:
    """The value that page/ draws; docs are in the functions that make its parts."""
    runs = read.runs
    differ = differences([run.settings for run in runs])
    single, _ = without_repeats(group_runs([run.path for run in runs]))
    kept = {path for paths in single.values() for path in paths}
    names = short_names([run.path for run in runs])
    every = strides([run.columns for run in runs], limits.points)
    strings = Strings()
    keys = [*differ.telling, *differ.other]
    packed_runs = []
    for run, name in zip(runs, names, strict=True):
        end = run.end_values()
        packed_runs.append(
            {
                "name": name,
                "path": str(run.path),
                "repeated": run.path not in kept,
                "finished": run.record is not None,
                "iterations": run.iterations(),
                **_settings(run, keys),
                "facts": {key: value for key, value in (run.record or {}).items() if key in FACTS},
                "before": _before(run),
                "end": dict(zip(end, rounded(end.values()), strict=True)),
                "series": _series(run.columns, every, run.iterations()),
                "samples": [packed(line, strings) for line in chosen(run.samples, limits.prompts)],
                "sample_lines": len(run.samples),
            }
        )
    return {
        "notes": read.notes,
        "telling": differ.telling,
        "differing": keys,
        "runs": packed_runs,
        "panels": _panels(packed_runs),
        "called": {metric: words.replace("$\\eta$", "η") for metric, words in AXES.items()},
        "thinned": {name: stride for name, stride in every.items() if stride > 1},
        "limits": {"points": limits.points, "prompts": limits.prompts},
        "strings": strings.texts,
    }


def short_names(paths: Sequence[Path]) -> list[str]:
    """The paths without the folders that all of them share."""
    if len(paths) == 1:
        return ["/".join(paths[0].parts[-2:])]
    parts = [path.parts for path in paths]
    shared = 0
    while len({own[shared] for own in parts if len(own) > shared + 1}) == 1 and all(
        len(own) > shared + 1 for own in parts
    ):
        shared += 1
    return ["/".join(own[shared:]) for own in parts]


def _settings(run: Run, keys: Sequence[str]) -> dict[str, Any]:
    """All settings, and the text of those that differ: null where the run does not have one."""
    every = flat(run.settings)
    return {
        "settings": {key: _text(value) for key, value in every.items()},
        "told": [_text(every[key]) if key in every else None for key in keys],
    }


def _before(run: Run) -> list[dict[str, Any]]:
    """The rows of the table of before and after; none of a run that has no such table."""
    return [
        {key: row[key] for key in ("metric", "before", "after", "low", "high", "n")}
        | {"called": title(str(row["metric"]), {})}
        for row in (run.record or {}).get("before_after", [])
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _series(columns: dict[str, Column], every: dict[str, int], done: int) -> dict[str, Any]:
    """Metrics as {name: {whom: [number of the iterations, values]}}; iterations stored once.

    Iterations are counted as done: the first one's metrics stand at 1, and an evaluation before the
    training at 0 of the same metric's line (`before/score` in `eval/score`).

    done: iterations of the run; 0: its only line is an evaluation's
    """
    places: list[list[int]] = []
    metrics: dict[str, dict[str, Any]] = {}
    for name, column in columns.items():
        line = thinned(column, every[name])
        ahead = 0 if done == 0 or name.startswith(f"{BEFORE}/") else 1
        iterations, values = (line.iterations + ahead).tolist(), rounded(line.values)
        untrained = columns.get(name.replace(EVALUATION, f"{BEFORE}/", 1))
        if name.startswith(EVALUATION) and untrained is not None:
            iterations, values = [0, *iterations], [*rounded(untrained.values[:1]), *values]
        if iterations not in places:
            places.append(iterations)
        metric, who = split_name(name)
        metrics.setdefault(metric, {})[who] = [places.index(iterations), values]
    return {"at": places, "metrics": metrics}


def _panels(runs: Sequence[dict[str, Any]]) -> list[str]:
    """The metrics that are drawn before anybody chooses: every run has one of them.

    What each run is judged by; of the others those that most runs have, up to three.
    """
    having = Counter(name for run in runs for name in run["series"]["metrics"])
    judged = {_judged(run["series"]["metrics"]) for run in runs} - {""}
    known = [name for name in FIRST if having[name]] + sorted(judged - set(FIRST))
    known = known or sorted(having)
    needed = [name for name in known if name in judged]
    bare = [
        metrics
        for metrics in (run["series"]["metrics"] for run in runs)
        if not any(name in metrics for name in needed)
    ]
    for name in sorted(known, key=lambda name: -having[name]):
        left = [metrics for metrics in bare if name not in metrics]
        if len(left) < len(bare):
            needed.append(name)
            bare = left
    rest = sorted((name for name in known if name not in needed), key=lambda name: -having[name])
    kept = needed + rest[: max(0, PANELS - len(needed))]
    return [name for name in known if name in kept]


def _judged(metrics: Mapping[str, Mapping[str, Any]]) -> str:
    """The metric that a run is judged by; empty where it has none.

    metrics: {name: {whom: ...}}, as `_series` makes them
    """
    for pattern in JUDGED:
        for name, whom in metrics.items():
            if any(re.fullmatch(pattern, f"{name}/{who}") for who in whom):
                return name
    return ""
