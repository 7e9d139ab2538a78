"""What is kept of a finished run, in a file small enough to be committed beside the pages.

docs/results/<paper>/records/<scale>/<experiment>/seed<N>.json, and refused.json beside the
experiments. The bytes of a file are a function of the run; pages are a function of these files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cory.report.claims import Lines

REFUSED = "refused.json"
# the metrics that pages and claims use; the others stay in the run directory
SERIES = tuple(
    re.compile(pattern)
    for pattern in (
        r"objective/(score|kl|combined|entropy)/agent_\d+",
        r"objective/(score|kl)/(pioneer|observer(_\d+)?)",
        r"transfer/.+",
        r"rollout/(truncated_share|distinct_2)/agent_\d+",
        r"eval/.+",
    )
)


@dataclass(frozen=True)
class Probe:
    """What one agent answered to one text after the last iteration."""

    agent: str
    text: str
    how: str  # greedy | sampled
    response: str


@dataclass(frozen=True)
class Archived:
    """A finished run."""

    experiment: str  # with the paper's prefix
    seed: int
    scale: str
    fidelity: str
    record: dict[str, Any]  # of record.json, without the last metrics
    code: str | None  # digest of the code that trains, at the run's commit; None: not known
    overrides: list[str]
    settings: dict[str, Any]
    lines: Lines
    probes: list[Probe]

    @property
    def name(self) -> str:
        """Experiment and seed."""
        return f"{self.experiment}/seed{self.seed}"


@dataclass(frozen=True)
class Refused:
    """A run directory that does not count."""

    experiment: str
    name: str
    why: str
    seed: int | None  # of a run that finished


def kept(metric: str) -> bool:
    """Whether the archive holds a metric."""
    return any(pattern.fullmatch(metric) for pattern in SERIES)


def path_of(folder: Path, run: Archived) -> Path:
    """Where a run lies; folder: docs/results/<paper>/records/<scale>."""
    return folder / run.experiment.partition("/")[2] / f"seed{run.seed}.json"


def write(path: Path, text: str) -> None:
    """In one step: a reader finds the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.part")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def encode(run: Archived) -> str:
    """The file of a run: one line per field and per series, numbers unrounded."""
    fields = {key: value for key, value in asdict(run).items() if key != "lines"}
    text = ",\n".join(f"{json.dumps(key)}: {_compact(value)}" for key, value in fields.items())
    blocks = ",\n".join(
        f'{{"iterations": {_compact(iterations)},\n"series": {{\n'
        + ",\n".join(f"{json.dumps(name)}: {_compact(values)}" for name, values in series.items())
        + "\n}}"
        for iterations, series in _blocks(run.lines)
    )
    return f'{{\n{text},\n"metrics": [\n{blocks}\n]\n}}\n'


def decode(text: str) -> Archived:
    """The run of a file."""
    fields = json.loads(text)
    at: dict[int, dict[str, Any]] = {}
    for block in fields.pop("metrics"):
        for place, iteration in enumerate(block["iterations"]):
            line = at.setdefault(iteration, {"iteration": iteration})
            line |= {name: values[place] for name, values in block["series"].items()}
    fields["probes"] = [Probe(**probe) for probe in fields["probes"]]
    return Archived(lines=[at[iteration] for iteration in sorted(at)], **fields)


def read(folder: Path) -> list[Archived]:
    """Every run of a scale, in order of experiment and seed; ValueError names a torn file."""
    runs = []
    for path in sorted(folder.glob("*/seed*.json"), key=_by_seed):
        try:
            runs.append(decode(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} cannot be read: {error!r}") from None
    return runs


def read_refused(folder: Path) -> list[Refused]:
    """The runs that the last gathering left out."""
    path = folder / REFUSED
    if not path.exists():
        return []
    return [Refused(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]


def write_refused(folder: Path, refused: Sequence[Refused]) -> None:
    """The list of the runs that were left out, one a line; no file where there are none."""
    if not refused:
        (folder / REFUSED).unlink(missing_ok=True)
        return
    lines = ",\n".join(_compact(asdict(entry)) for entry in refused)
    write(folder / REFUSED, f"[\n{lines}\n]\n")


def _blocks(lines: Lines) -> Iterator[tuple[list[int], dict[str, list[Any]]]]:
    """The kept series, those of the same iterations together."""
    series: dict[str, dict[int, Any]] = {}
    for line in lines:
        for name, value in line.items():
            if kept(name):
                series.setdefault(name, {})[int(line["iteration"])] = value
    # a line without any of them still is an iteration
    blocks: dict[tuple[int, ...], dict[str, list[Any]]] = {
        tuple(int(line["iteration"]) for line in lines): {}
    }
    for name, values in series.items():
        blocks.setdefault(tuple(values), {})[name] = list(values.values())
    for iterations, named in blocks.items():
        yield list(iterations), named


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _by_seed(path: Path) -> tuple[str, int]:
    return path.parent.name, int(path.stem.removeprefix("seed"))
