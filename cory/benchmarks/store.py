"""The scores of benchmarks on disk: benchmarks.json of a run directory, and its record.

`benchmarks.json` holds every detail. The part that pages need is copied into `record.json` under
"benchmarks"; the rest of the record is not changed.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cory.config import GEOMETRIC_MEAN, ConfigError
from cory.runs.run_dir import BENCHMARKS, RECORD, line_of, read_record, write_whole

KEY = "benchmarks"  # in record.json
WHOLE, LIMITED = "whole", "limited"  # sections of benchmarks.json: all questions, or the first few
# keys of a score that are copied into the record
RECORDED = (
    *("value", "stderr", "metric", "shots", "suite", "task", "filter", "questions", "included"),
    *("empty_share", "harness", "dtype", "quantisation", "device", "commit", "clean"),
)
# keys in which all scores of one agent must agree, since they are shown side by side
ALIKE = ("harness", "dtype", "quantisation", "bos", "max_new_tokens", "seed", "limit")

Entry = dict[str, Any]  # a score and how it was measured
Sections = dict[str, dict[str, dict[str, Entry]]]  # by section, by agent, by benchmark


def read_scores(run_dir: Path) -> Sections:
    """The content of benchmarks.json; empty without the file, ConfigError if it is broken."""
    path = run_dir / BENCHMARKS
    if not path.exists():
        return {}
    try:
        sections: Sections = line_of(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    return sections


def keep_score(run_dir: Path, section: str, model: str, name: str, entry: Entry) -> None:
    """Writes a score at once, so that it is not lost when the next measurement fails.

    model: name of the agent, or `base`
    name: of the benchmark
    """
    sections = read_scores(run_dir)
    entries = sections.setdefault(section, {}).setdefault(model, {})
    entries.pop(GEOMETRIC_MEAN, None)  # it was of the previous score
    entries[name] = entry
    write_json(run_dir / BENCHMARKS, sections)


def add_geometric_mean(
    run_dir: Path, section: str, model: str, suite: str, names: Sequence[str]
) -> None:
    """Writes the geometric mean of the benchmarks `names`, if all of them are measured."""
    sections = read_scores(run_dir)
    entries = sections.get(section, {}).get(model, {})
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
    write_json(run_dir / BENCHMARKS, sections)


def record_scores(run_dir: Path) -> None:
    """Copies the scores over all questions into record.json, without other changes there.

    Scores over the first few questions stay out: they would look comparable to the paper's.
    """
    path = run_dir / RECORD
    content = read_record(run_dir)
    if content is None:
        raise ConfigError(f"{path} cannot be read")
    content[KEY] = {
        model: {
            name: {key: entry[key] for key in RECORDED if key in entry}
            for name, entry in entries.items()
        }
        for model, entries in read_scores(run_dir).get(WHOLE, {}).items()
    }
    write_json(path, content)


def write_json(path: Path, content: Any) -> None:
    """Writes JSON atomically; ConfigError where that fails."""
    try:
        write_whole(path, json.dumps(content, indent=1) + "\n")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def geometric_mean(numbers: Sequence[tuple[float, float | None]]) -> tuple[float, float | None]:
    """The geometric mean of independent numbers, and its standard error by the delta method.

    numbers: (value, standard error); None for an unknown error
    returns: (mean, standard error); None where an error is unknown or a value is 0
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
