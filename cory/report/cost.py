"""The cost of a sweep before it starts: from records of the same runs, else by estimate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cory.config import GPUS, Config, ConfigError, parse_config, require
from cory.memory.duration import duration_on
from cory.memory.operations import estimated_hours
from cory.memory.planning import hours_text
from cory.memory.preflight import rows_of, runs_at_once
from cory.report.paper import Compose, Table
from cory.report.records.archive import Archived
from cory.report.records.gather import FIDELITY, load_run
from cory.runs.provenance import device_name
from cory.runs.run_dir import RECORD


@dataclass(frozen=True)
class Known:
    """The measured duration of an experiment's finished runs."""

    seconds: float  # the mean
    runs: int
    devices: list[str]
    threads: int | None  # of each process; None: not the same in all


@dataclass(frozen=True)
class Reckoned:
    """How long one run takes, and how many work side by side."""

    hours: float | None  # None: unknown
    source: str
    at_once: int
    gain: int  # runs side by side with which a sweep is so many times as fast

    def of(self, todo: int) -> float:
        """Hours of so many runs; 0 where it is unknown."""
        return 0.0 if self.hours is None else self.hours * todo / self.gain


def reckoned(config: Config, known: Known | None, test_problems: Mapping[str, Any]) -> Reckoned:
    """The cost of one run: measured where runs like it are known, else an estimate that says so.

    test_problems: of `conf/paper/`: how many problems a whole test split has
    """
    at_once = runs_at_once(config)
    if config.hardware.gpu is not None:
        return Reckoned(*planned_hours(config, test_problems), at_once, 1)
    if known is None:
        return Reckoned(*estimated_hours(config, test_problems), at_once, 1)
    # how long a run takes with other threads is not known: no gain is assumed
    gain = at_once if known.threads == config.hardware.threads(at_once) else 1
    return Reckoned(known.seconds / 3600, measured_text(known, config), at_once, gain)


def cost(table: Table, outputs: Path, archived: Sequence[Archived], compose: Compose) -> list[str]:
    """Lines of text: runs still to do, their iterations, and hours."""
    lines: list[str] = []
    total, unknown, hardware, at_once = 0.0, 0, set(), set()
    folder = outputs / "runs" / table.scale / FIDELITY
    todo_in_all = 0
    for experiment in table.to_run:
        config = parse_config(compose(experiment, table.scale))
        hardware.add(config.hardware.name)
        todo = [s for s in table.seeds if not (folder / experiment / f"seed{s}" / RECORD).exists()]
        if not todo:
            continue
        todo_in_all += len(todo)
        planned = config.hardware.gpu is not None  # for another machine: nothing is on record
        known = None if planned else durations(experiment, table.scale, config, outputs, archived)
        each = reckoned(config, known, table.about.get("test_problems", {}))
        at_once.add(each.at_once)
        said = "time unknown" if each.hours is None else f"{duration(each.hours)} each"
        lines.append(
            f"  {experiment}: {len(todo)} to do x {config.algorithm.iterations} iterations, "
            f"{said} ({each.source})"
        )
        total += each.of(len(todo))
        unknown += len(todo) if each.hours is None else 0
    runs = len(table.to_run) * len(table.seeds)
    head = (
        f"{table.paper} {table.name} at scale {table.scale}: {runs} runs "
        f"({len(table.to_run)} experiments x {len(table.seeds)} seeds), {todo_in_all} to do"
    )
    if todo_in_all == 0:
        return [head]
    groups = ", ".join(sorted(hardware))
    last = f"in all about {duration(total)} on hardware={groups}, {manner(max(at_once))}"
    if unknown:
        last += f", and {unknown} runs of unknown length"
    return [head, *lines, last if total else f"in all: unknown, on hardware={groups}"]


def manner(at_once: int) -> str:
    """How many runs work at a time, in words."""
    return "one run after another" if at_once == 1 else f"{at_once} runs at a time"


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


def durations(
    experiment: str, scale: str, config: Config, outputs: Path, archived: Sequence[Archived]
) -> Known | None:
    """Finished runs of the same experiment, scale and length: of outputs/, else of the archive."""
    here = outputs / "runs" / scale / FIDELITY / experiment
    found = [load_run(path.parent, experiment, scale) for path in sorted(here.glob(f"*/{RECORD}"))]
    found = found or [run for run in archived if run.experiment == experiment]
    same = [run.record for run in found if run.record["iterations"] == config.algorithm.iterations]
    if not same:
        return None
    seconds = float(np.mean([record["wall_s"] for record in same]))
    threads = {record.get("threads") for record in same}
    devices = sorted({record["device"] for record in same})
    return Known(seconds, len(same), devices, threads.pop() if len(threads) == 1 else None)


def measured_text(known: Known, config: Config) -> str:
    """The device where a duration was measured, and whether this machine has the same."""
    devices = ", ".join(known.devices)
    number = f"{known.runs} run{'s' if known.runs > 1 else ''}"
    gpu = config.hardware.device == "cuda"
    own = None if gpu and not torch.cuda.is_available() else device_name(config.hardware.device)
    here = "" if known.devices == [own] else ", which is not the device of this machine"
    return f"measured: {number} on {devices}{here}"


def duration(hours: float) -> str:
    """Hours as text; minutes below two hours."""
    if hours < 1 / 60:
        return "under a minute"
    return f"{60 * hours:.0f} min" if hours < 2 else f"{hours:.1f} h"
