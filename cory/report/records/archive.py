"""The archive: one JSON file per finished run, small enough to be committed beside the pages.

docs/results/<paper>/records/<scale>/<experiment>/seed<N>.json, and refused.json beside the
experiments. The bytes of a file are a function of the run; pages are a function of these files.

Each file begins with a digest of the rest: a number that somebody changed is noticed, not shown.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cory.report.claims.measures import Lines
from cory.report.records.benchmarks import without_benchmarks
from cory.runs.precision import precision_of

REFUSED_FILE = "refused.json"
# the metrics that pages and claims use; the others stay in the run directory
SERIES = tuple(
    re.compile(pattern)
    for pattern in (
        r"objective/(score|score_std|kl|combined|entropy)/(agent_\d+(_turn_\d+)?|turn_\d+)",
        r"objective/(score|kl)/(pioneer|observer(_\d+)?)",
        r"transfer/.+",
        r"rollout/(truncated_share|distinct_2)/agent_\d+",
        r"debate/(right|bonus)/turn_\d+",
        r"debate/(pseudo_right|consensus)/team",
        r"supervised/(examples|corrected|kept|loss)/((generation|critic)_\d+|single)",
        r"game/.+",
        r"offline/(loss|ratio|kl|clipfrac|examples)/agent_\d+",
        r"benchmark/.+",
        r"eval/.+",
    )
)
# settings that say how fast, where and on whose behalf a run was made
MANNER = (
    "hardware",
    "wandb",
    "tensorboard",
    "sweep",
    "checkpoint_every",
    "keep_last",
    "keep_state",
    "keep_best",
    "keep_best_mode",
    "parallel_runs",
)


@dataclass(frozen=True)
class Probe:
    """The response of one agent to one probe text after the last iteration."""

    agent: str
    text: str
    how: str  # greedy | sampled
    response: str


@dataclass(frozen=True)
class Archived:
    """A finished run as the archive keeps it."""

    experiment: str  # with the paper's prefix
    seed: int
    scale: str
    fidelity: str
    record: dict[str, Any]  # of record.json, without the last metrics
    code: str | None  # digest of the code that trains, at the run's commit; None: not known
    overrides: list[str]
    settings: dict[str, Any]  # of config.yaml, without the place on somebody's machine
    lines: Lines
    probes: list[Probe]

    @property
    def name(self) -> str:
        """Experiment and seed."""
        return f"{self.experiment}/seed{self.seed}"

    @property
    def measured(self) -> Lines:
        """The lines, each with the standard error of its mean scores, `objective/score_se/<agent>`.

        That is what chance leaves when so few responses are drawn. Runs archived without the
        standard deviation of their scores have none, but where a score is 0 or 1.
        """
        drawn = int(self.settings.get("algorithm", {}).get("prompts_per_iteration", 0))
        whole = self.settings.get("reward", {}).get("name") == "exact_match"
        return [{**line, **dict(_errors(line, drawn, whole))} for line in self.lines]

    @property
    def precision(self) -> str:
        """In which precision its models were held and computed, in words."""
        words = precision_of(self.settings)
        if len(set(words.values())) == 1:
            return min(words.values())
        return ", ".join(f"{group}: {text}" for group, text in words.items())


@dataclass(frozen=True)
class Refused:
    """A run directory that does not count, and the reason."""

    experiment: str
    name: str
    why: str
    seed: int | None  # of a run that finished


def _errors(line: Mapping[str, Any], drawn: int, whole: bool) -> Iterator[tuple[str, float]]:
    """The standard errors of the mean scores in one line.

    drawn: responses behind each
    whole: a score is 0 or 1
    """
    for name in line:
        agent = name.removeprefix("objective/score/")
        if agent == name or "turn" in agent or not agent.startswith("agent_"):
            continue
        mean, std = float(line[name]), line.get(f"objective/score_std/{agent}")
        if std is None and whole:
            std = math.sqrt(max(0.0, mean * (1 - mean)))
        if std is not None and drawn > 1:
            yield f"objective/score_se/{agent}", float(std) / math.sqrt(drawn - 1)


def kept(metric: str) -> bool:
    """Whether the archive keeps a metric."""
    return any(pattern.fullmatch(metric) for pattern in SERIES)


def path_of(folder: Path, run: Archived) -> Path:
    """The file of a run; folder: docs/results/<paper>/records/<scale>."""
    return folder / run.experiment.partition("/")[2] / f"seed{run.seed}.json"


def write(path: Path, text: str) -> None:
    """Write a file atomically: a reader sees the old text or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.part")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def encode(run: Archived) -> str:
    """The text of a run's file: one line per field and per series, numbers unrounded."""
    fields = {key: value for key, value in asdict(run).items() if key != "lines"}
    text = ",\n".join(f"{json.dumps(key)}: {_compact(value)}" for key, value in fields.items())
    blocks = ",\n".join(
        f'{{"iterations": {_compact(iterations)},\n"series": {{\n'
        + ",\n".join(f"{json.dumps(name)}: {_compact(values)}" for name, values in series.items())
        + "\n}}"
        for iterations, series in _blocks(run.lines)
    )
    rest = f'{text},\n"metrics": [\n{blocks}\n]\n}}\n'
    return f'{{\n"sha256": "{_digest(rest)}",\n{rest}'


def decode(text: str) -> Archived:
    """The run in a file's text; ValueError where it is not as `encode` wrote it."""
    fields = json.loads(text)
    head, _, rest = text.partition(",\n")
    if head != f'{{\n"sha256": "{_digest(rest)}"':
        raise ValueError("it is not what was gathered: its sha256 is another one")
    del fields["sha256"]
    at: dict[int, dict[str, Any]] = {}
    for block in fields.pop("metrics"):
        for place, iteration in enumerate(block["iterations"]):
            line = at.setdefault(iteration, {"iteration": iteration})
            line |= {name: values[place] for name, values in block["series"].items()}
    fields["probes"] = [Probe(**probe) for probe in fields["probes"]]
    return Archived(lines=[at[iteration] for iteration in sorted(at)], **fields)


def same_results(one: Archived, other: Archived) -> bool:
    """Whether two runs have the same settings and the same results, to the last digit."""

    def results(run: Archived) -> Any:
        what = {key: value for key, value in run.settings.items() if key not in MANNER}
        # benchmarks are no part of what a run does: they are added later, or not at all
        return what, list(_blocks(without_benchmarks(run.lines))), run.probes

    return bool(results(one) == results(other))


def load_record(path: Path) -> Archived:
    """Read one file; ValueError with its name where it cannot be read."""
    try:
        return decode(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def read(folder: Path) -> list[Archived]:
    """Read every run of a scale, by experiment and seed; ValueError names a file it cannot read.

    folder: docs/results/<paper>/records/<scale>
    """
    runs = []
    for path in sorted(folder.glob("*/*.json")):
        run = load_record(path)
        if (path_of(folder, run), run.scale) != (path, folder.name):
            raise ValueError(f"{path} holds {run.name} of scale {run.scale}")
        runs.append(run)
    return sorted(runs, key=lambda run: (run.experiment, run.seed))


def read_refused(folder: Path) -> list[Refused]:
    """Read the list of refused runs; ValueError names a file that cannot be read."""
    path = folder / REFUSED_FILE
    if not path.exists():
        return []
    try:
        return [Refused(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def write_refused(folder: Path, refused: Sequence[Refused]) -> None:
    """Write the list of refused runs, one a line; remove the file where there are none."""
    if not refused:
        (folder / REFUSED_FILE).unlink(missing_ok=True)
        return
    lines = ",\n".join(_compact(asdict(entry)) for entry in refused)
    write(folder / REFUSED_FILE, f"[\n{lines}\n]\n")


def _blocks(lines: Lines) -> Iterator[tuple[list[int], dict[str, list[Any]]]]:
    """The kept series, grouped by the iterations at which they have values."""
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


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
