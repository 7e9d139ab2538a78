"""The cost of a sweep before it starts: from records of the same runs, else by estimate."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from cory.config import Config, parse_config
from cory.memory.operations import estimated_hours
from cory.memory.preflight import runs_at_once
from cory.report.pages.presets import Compose
from cory.report.paper import Table
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
        at_once.add(beside := runs_at_once(config))
        known = durations(experiment, table.scale, config, outputs, archived)
        hours, source = (
            estimated_hours(config, table.about.get("test_problems", {}))
            if known is None
            else (known.seconds / 3600, measured_text(known, config))
        )
        each = "time unknown" if hours is None else f"{duration(hours)} each"
        lines.append(
            f"  {experiment}: {len(todo)} to do x {config.algorithm.iterations} iterations, "
            f"{each} ({source})"
        )
        if known is None or known.threads != config.hardware.threads(beside):
            beside = 1  # how long a run takes with so many threads is not known: no gain is assumed
        total += 0.0 if hours is None else hours * len(todo) / beside
        unknown += len(todo) if hours is None else 0
    runs = len(table.to_run) * len(table.seeds)
    head = (
        f"{table.paper} {table.name} at scale {table.scale}: {runs} runs "
        f"({len(table.to_run)} experiments x {len(table.seeds)} seeds), {todo_in_all} to do"
    )
    if todo_in_all == 0:
        return [head]
    groups = ", ".join(sorted(hardware))
    most = max(at_once)
    how = "one run after another" if most == 1 else f"{most} runs at a time"
    last = f"in all about {duration(total)} on hardware={groups}, {how}"
    if unknown:
        last += f", and {unknown} runs of unknown length"
    return [head, *lines, last if total else f"in all: unknown, on hardware={groups}"]


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
