"""The cost of a sweep before it starts: from records of the same runs, else by estimate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cory.config import GPUS, Config, ConfigError, parse_config, require
from cory.memory.duration import duration_on
from cory.memory.operations import estimated_hours, requests_of
from cory.memory.planning import hours_text
from cory.memory.preflight import rows_of, runs_at_once
from cory.report.costs.durations import same_experiment, same_kind
from cory.report.paper import Compose, Table
from cory.report.records.archive import Archived
from cory.report.records.gather import FIDELITY
from cory.runs.run_dir import RECORD


@dataclass(frozen=True)
class Reckoned:
    """How long one run takes, and how many work side by side."""

    hours: float | None  # None: unknown
    source: str
    at_once: int
    gain: int  # runs side by side with which a sweep is so many times as fast
    measured: bool  # in runs of the same experiment; False: an estimate

    @property
    def in_turn(self) -> bool:
        """Whether its hours are counted as if no two runs worked side by side, though they do."""
        return self.hours is not None and self.at_once > 1 and self.gain == 1

    def of(self, todo: int) -> float:
        """Hours of so many runs among others; 0 where it is unknown."""
        return 0.0 if self.hours is None else self.hours * todo / self.gain


def reckoned(
    config: Config,
    outputs: Path,
    archived: Sequence[Archived],
    test_problems: Mapping[str, Any],
    as_named: bool = True,
) -> Reckoned:
    """The cost of one run: measured where runs like it are known, else an estimate that says so.

    outputs, archived: finished runs
    test_problems: of `conf/paper/`: how many problems a whole test split has
    as_named: the settings are those of the experiment that it is named after
    """
    at_once = runs_at_once(config)
    if config.hardware.gpu is not None:  # for another machine: nothing is on record
        return Reckoned(*planned_hours(config, test_problems), at_once, 1, False)
    known = same_experiment(config, outputs, archived) if as_named else None
    known = known or same_kind(config, outputs, archived, test_problems)
    if known is None:
        return Reckoned(*estimated_hours(config, test_problems), at_once, 1, False)
    # how long a run takes with other threads is not known: no gain is assumed
    gain = at_once if known.threads == config.hardware.threads(at_once) else 1
    return Reckoned(known.seconds / 3600, known.source, at_once, gain, known.measured)


def cost(
    table: Table,
    outputs: Path,
    archived: Sequence[Archived],
    compose: Compose,
    seeds: Sequence[int] | None = None,
) -> list[str]:
    """Lines of text: runs still to do, their iterations, and hours.

    seeds: of the table's, those that will run; None: all. ValueError for one that it does not have
    """
    seeds = table.seeds if seeds is None else seeds
    for seed in seeds:
        if seed not in table.seeds:
            raise ValueError(f"{table.where} has the seeds {table.seeds}, and not {seed}")
    lines: list[str] = []
    total, longest, unknown, in_turn, hardware, at_once = 0.0, 0.0, 0, 0, set(), set()
    problems, requests = table.about.get("test_problems", {}), 0
    folder = outputs / "runs" / table.scale / FIDELITY
    todo_in_all = 0
    for experiment in table.to_run:
        config = parse_config(compose(experiment, table.scale))
        hardware.add(config.hardware.name)
        todo = [s for s in seeds if not (folder / experiment / f"seed{s}" / RECORD).exists()]
        if not todo:
            continue
        todo_in_all += len(todo)
        each = reckoned(config, outputs, archived, problems)
        requests += len(todo) * requests_of(config, problems)
        at_once.add(each.at_once)
        said = "time unknown" if each.hours is None else f"{duration(each.hours)} each"
        lines.append(
            f"  {experiment}: {len(todo)} to do x {config.algorithm.iterations} iterations, "
            f"{said} ({each.source})"
        )
        total += each.of(len(todo))
        longest = max(longest, each.hours or 0.0)
        unknown += len(todo) if each.hours is None else 0
        in_turn += len(todo) if each.in_turn else 0
    total = max(total, longest)  # too few runs to fill all places
    runs = len(table.to_run) * len(seeds)
    each_with = f"{len(seeds)} seed{'s' * (len(seeds) > 1)}"
    head = (
        f"{table.paper} {table.name} at scale {table.scale}: {runs} runs "
        f"({len(table.to_run)} experiments x {each_with}), {todo_in_all} to do"
    )
    if todo_in_all == 0:
        return [head]
    groups = ", ".join(sorted(hardware))
    way = manner(max(at_once), in_turn, todo_in_all - unknown)
    last = f"in all about {duration(total)} on hardware={groups}, {way}"
    if unknown:
        last += f", and {unknown} runs of unknown length"
    last = last if total else f"in all: unknown, on hardware={groups}"
    return [head, *lines, last + besides(requests)]


def besides(requests: int) -> str:
    """What the hours of a sweep leave out: requests to an endpoint, which take time and money."""
    return f"; besides up to {requests:,} requests to its endpoint" if requests else ""


def manner(at_once: int, in_turn: int, known: int) -> str:
    """How many runs work at a time, in words, and how the hours were counted.

    in_turn: of the `known` runs whose length is known, those counted as `Reckoned.in_turn`
    """
    if at_once == 1:
        return "one run after another"
    which = "" if in_turn == known else f"{in_turn} of them "
    counted = f" but {which}counted one after another" if in_turn else ""
    return f"{at_once} runs at a time{counted}"


def planned_hours(config: Config, problems: Mapping[str, Any]) -> tuple[float | None, str]:
    """Hours on the GPUs that the settings plan for, and from what to what; None: unknown."""
    gpu, hardware = config.hardware.gpu, config.hardware
    require(
        gpu is not None and hardware.device == "cuda",
        f"hardware.gpu={gpu} needs a hardware with GPUs; hardware={hardware.name} has none",
    )
    assert gpu is not None
    try:
        rows, _ = rows_of(config)
        duration = duration_on(config, GPUS[gpu], rows, problems)
    except ConfigError as error:
        return None, str(error)
    expected = duration.hours[1]
    return expected, f"ESTIMATE for {gpu}: {hours_text(duration)}{duration.left_out}"


def duration(hours: float) -> str:
    """Hours as text; minutes below two hours."""
    if hours < 1 / 60:
        return "under a minute"
    return f"{60 * hours:.0f} min" if hours < 2 else f"{hours:.1f} h"
