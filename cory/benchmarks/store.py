"""The numbers of benchmarks on disk: benchmarks.json of a run directory, and its record.

`benchmarks.json` holds all that was found. What pages need of it is copied into `record.json`,
under "benchmarks"; the rest of the record is left as it is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cory.config import GEOMETRIC_MEAN, ConfigError
from cory.runs.run_dir import RECORD, write_whole

FILE = "benchmarks.json"
KEY = "benchmarks"  # in record.json
WHOLE, LIMITED = "whole", "limited"  # sections of benchmarks.json: all questions, or the first few
# what the record says of each benchmark; the rest is in benchmarks.json
RECORDED = (
    *("value", "stderr", "metric", "shots", "suite", "task", "filter", "questions", "included"),
    *("empty_share", "harness", "dtype", "quantisation", "device", "commit", "clean"),
)
# numbers of one agent that are shown side by side agree in these
ALIKE = ("harness", "dtype", "quantisation", "bos", "max_new_tokens", "seed", "limit")

Entry = dict[str, Any]  # all that there is to say about a number
Sections = dict[str, dict[str, dict[str, Entry]]]  # by section, by agent, by benchmark


def read_scores(run_dir: Path) -> Sections:
    """What benchmarks.json holds; nothing where there is none."""
    path = run_dir / FILE
    if not path.exists():
        return {}
    try:
        found: Sections = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    return found


def keep_score(run_dir: Path, section: str, who: str, name: str, entry: Entry) -> None:
    """Add a number at once: what is measured is not lost when the next one fails."""
    everything = read_scores(run_dir)
    entries = everything.setdefault(section, {}).setdefault(who, {})
    entries.pop(GEOMETRIC_MEAN, None)  # of the number that was there before
    entries[name] = entry
    write_json(run_dir / FILE, everything)


def add_geometric_mean(
    run_dir: Path, section: str, who: str, suite: str, names: Sequence[str]
) -> None:
    """Add the geometric mean of `names`, where all of them are there."""
    everything = read_scores(run_dir)
    entries = everything.get(section, {}).get(who, {})
    if GEOMETRIC_MEAN in entries or not all(name in entries for name in names):
        return
    value, stderr = geometric_mean(
        [(entries[name]["value"], entries[name]["stderr"]) for name in names]
    )
    alike = {key: entries[names[0]][key] for key in ALIKE}
    entries[GEOMETRIC_MEAN] = {
        **{"value": value, "stderr": stderr, "metric": "geometric mean", "shots": None},
        **{"suite": suite, "of": list(names)},
        **alike,
    }
    write_json(run_dir / FILE, everything)


def record_scores(run_dir: Path) -> None:
    """Put the numbers over all questions into record.json, and change nothing else there.

    A number over the first few questions would look like the paper's and not be it.
    """
    path = run_dir / RECORD
    content = json.loads(path.read_text(encoding="utf-8"))
    content[KEY] = {
        who: {
            name: {key: entry[key] for key in RECORDED if key in entry}
            for name, entry in entries.items()
        }
        for who, entries in read_scores(run_dir).get(WHOLE, {}).items()
    }
    write_json(path, content)


def write_json(path: Path, content: Any) -> None:
    """As JSON, in one step."""
    try:
        write_whole(path, json.dumps(content, indent=1) + "\n")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def geometric_mean(numbers: Sequence[tuple[float, float | None]]) -> tuple[float, float | None]:
    """The geometric mean of numbers, and its standard error by the delta method.

    numbers: each with its standard error, independent of the others; None where it is not known
    returns: no standard error where one of them is not known, or where a number is 0
    """
    values = [value for value, _ in numbers]
    if 0 in values:
        return 0.0, None
    mean = math.exp(math.fsum(map(math.log, values)) / len(values))
    # the mean changes by mean / (n * value) when a value changes by 1
    terms = []
    for value, stderr in numbers:
        if stderr is None:
            return mean, None
        terms.append((mean * stderr / (len(values) * value)) ** 2)
    return mean, math.sqrt(math.fsum(terms))
