"""How long a run will take: as runs of the same experiment took, else by the speed of its kind."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cory.config import Config, ConfigError, parse_config
from cory.memory.operations import counted_operations
from cory.report.records.archive import Archived
from cory.report.records.gather import FIDELITY, load_run
from cory.runs.provenance import device_name
from cory.runs.run_dir import RECORD

# runs that agree in these settings are taken to be equally fast, in operations per second
KIND = (
    ("algorithm", "name"),
    ("model", "path"),
    ("model", "sharing"),
    ("model", "compute_precision"),
    ("hardware", "name"),
)


@dataclass(frozen=True)
class Known:
    """How long a run takes, from finished runs."""

    seconds: float
    source: str  # in words
    measured: bool  # in runs of the same experiment and length; False: by the speed of its kind
    threads: int | None  # of each process; None: not the same in all runs


def same_experiment(config: Config, outputs: Path, archived: Sequence[Archived]) -> Known | None:
    """The mean of its finished runs of this scale and length: of outputs/, else of the archive."""
    name, scale = config.experiment, config.scale
    found = [load_run(run_dir, name, scale) for run_dir in _finished(outputs, scale, name)]
    found = found or [run for run in archived if run.experiment == name]
    same = [run.record for run in found if run.record["iterations"] == config.algorithm.iterations]
    if not same:
        return None
    seconds = float(np.mean([record["wall_s"] for record in same]))
    return Known(seconds, f"measured: {_where(same, config)}", True, _threads(same))


def same_kind(
    config: Config,
    outputs: Path,
    archived: Sequence[Archived],
    test_problems: Mapping[str, Any],
) -> Known | None:
    """By arithmetic, at the speed of finished runs with the same algorithm and model.

    Runs of outputs/ come before those of the archive, as this machine made them.
    test_problems: of `conf/paper/`: how many problems a whole test split has
    """
    try:
        operations, left_out = counted_operations(config, test_problems)
    except ConfigError:
        return None
    own = tuple(getattr(getattr(config, group), key) for group, key in KIND)
    paper = config.experiment.partition("/")[0]
    for runs in (_one_of_each(outputs, config.scale, paper), archived):
        kin = [run for run in runs if _kind(run) == own]
        done = _operations(kin, test_problems)
        if done is not None:
            records = [run.record for run in kin]
            seconds = operations / done * sum(record["wall_s"] for record in records)
            source = (
                f"ESTIMATE, no record yet: {operations:.1e} operations at the speed of "
                f"{_where(records, config)} with the same algorithm and model{left_out}"
            )
            return Known(seconds, source, False, _threads(records))
    return None


def _finished(outputs: Path, scale: str, experiment: str) -> list[Path]:
    """Directories of an experiment's finished runs in outputs/."""
    folder = outputs / "runs" / scale / FIDELITY / experiment  # conf/train.yaml
    return [record.parent for record in sorted(folder.glob(f"*/{RECORD}"))]


def _one_of_each(outputs: Path, scale: str, paper: str) -> Iterator[Archived]:
    """A finished run of each experiment of the paper: many would take seconds to read."""
    for folder in sorted((outputs / "runs" / scale / FIDELITY / paper).glob("*")):
        experiment = f"{paper}/{folder.name}"
        for run_dir in _finished(outputs, scale, experiment):
            try:
                yield load_run(run_dir, experiment, scale)
            except ValueError:
                continue  # damaged: pages refuse it by name, and another one tells the speed, too
            break


def _kind(run: Archived) -> tuple[Any, ...]:
    return tuple(run.settings.get(group, {}).get(key) for group, key in KIND)


def _operations(runs: Iterable[Archived], test_problems: Mapping[str, Any]) -> float | None:
    """Of all runs together; None where there are none, or settings that cannot be counted."""
    total = 0.0
    for _, same in groupby(runs, lambda run: (run.experiment, run.record["iterations"])):
        several = list(same)
        settings = OmegaConf.create({**several[0].settings, "run_dir": "unused"})
        try:
            each, _ = counted_operations(parse_config(settings), test_problems)
        except (ConfigError, OmegaConfBaseException):  # settings of an older version
            return None
        total += each * len(several)
    return total or None


def _where(records: Sequence[Mapping[str, Any]], config: Config) -> str:
    """How many runs on which devices, and whether this machine is such a device."""
    devices = sorted({record["device"] for record in records})
    device = config.hardware.device
    own = None if device == "cuda" and not torch.cuda.is_available() else device_name(device)
    here = "" if devices == [own] else ", which is not the device of this machine,"
    return f"{len(records)} run{'s' if len(records) > 1 else ''} on {', '.join(devices)}{here}"


def _threads(records: Iterable[Mapping[str, Any]]) -> int | None:
    found = {record.get("threads") for record in records}
    return found.pop() if len(found) == 1 else None
