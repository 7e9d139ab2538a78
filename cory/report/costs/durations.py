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
from cory.report.records.gather import FIDELITY
from cory.runs.provenance import device_name
from cory.runs.run_dir import RECORD, read_record
from cory.runs.stored_settings import read_settings

# runs that agree in these settings are taken to be equally fast, in operations per second
MODEL = (
    ("model", "path"),
    ("model", "sharing"),
    ("model", "precision"),
    ("model", "compute_precision"),
    ("model", "quantisation"),
    ("hardware", "name"),
)
KINDS = {  # closest first
    "the same algorithm and model": (("algorithm", "name"), *MODEL),
    "the same model": MODEL,
}
NEEDED = ("iterations", "wall_s", "device")  # in a record


@dataclass(frozen=True)
class Known:
    """How long a run takes, from finished runs."""

    seconds: float
    source: str  # in words
    measured: bool  # in runs of the same experiment and length; False: by the speed of its kind
    threads: int | None  # of each process; None: not the same in all runs


@dataclass(frozen=True)
class Timed:
    """What tells how fast a finished run was."""

    experiment: str
    settings: Mapping[str, Any]
    record: Mapping[str, Any]


def same_experiment(config: Config, outputs: Path, archived: Sequence[Archived]) -> Known | None:
    """The mean of its finished runs of this scale and length: of outputs/, else of the archive."""
    own = _folder(outputs, config.scale) / config.experiment
    here = [record for _, record in _finished(own)]
    kept = [run.record for run in archived if run.experiment == config.experiment]
    for records in (here, kept):
        same = [run for run in records if run["iterations"] == config.algorithm.iterations]
        if same:
            seconds = float(np.mean([record["wall_s"] for record in same]))
            return Known(seconds, f"measured: {_where(same, config)}", True, _threads(same))
    return None


def same_kind(
    config: Config,
    outputs: Path,
    archived: Sequence[Archived],
    test_problems: Mapping[str, Any],
) -> Known | None:
    """By arithmetic, at the speed of finished runs with the same algorithm and model, or model.

    Of one kind, runs of outputs/ come before those of the archive, as this machine made them.
    test_problems: of `conf/paper/`: how many problems a whole test split has
    """
    try:
        operations, left_out = counted_operations(config, test_problems)
    except ConfigError:
        return None
    here = list(_one_of_each(outputs, config))
    kept = [Timed(run.experiment, run.settings, run.record) for run in archived]
    for agree, kind in KINDS.items():
        own = tuple(getattr(getattr(config, group), key) for group, key in kind)
        for runs in (here, kept):
            kin = [run for run in runs if _values(run.settings, kind) == own]
            done, records = _counted(kin, left_out, test_problems)
            if records:
                seconds = operations / done * sum(record["wall_s"] for record in records)
                source = (
                    f"ESTIMATE, no record yet: {operations:.1e} operations at the speed of "
                    f"{_where(records, config)}, with {agree}{left_out}"
                )
                return Known(seconds, source, False, _threads(records))
    return None


def _folder(outputs: Path, scale: str) -> Path:
    return outputs / "runs" / scale / FIDELITY  # conf/train.yaml


def _finished(experiment: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Directories and records of the finished runs in an experiment's folder.

    Damaged ones are passed over: pages refuse them by name.
    """
    for path in sorted(experiment.glob(f"*/{RECORD}")):
        record = read_record(path.parent)
        if record is not None and all(key in record for key in NEEDED):
            yield path.parent, record


def _one_of_each(outputs: Path, config: Config) -> Iterator[Timed]:
    """A finished run of each experiment of the paper: many would take seconds to read."""
    folder = _folder(outputs, config.scale)
    paper, slash, _ = config.experiment.partition("/")
    for experiment in sorted((folder / paper if slash else folder).glob("*")):
        for run_dir, record in _finished(experiment):
            try:
                settings = OmegaConf.to_container(read_settings(run_dir))
            except ConfigError:
                continue
            assert isinstance(settings, dict)
            named = {str(key): value for key, value in settings.items()}
            yield Timed(str(experiment.relative_to(folder)), named, record)
            break


def _values(settings: Mapping[str, Any], kind: Sequence[tuple[str, str]]) -> tuple[Any, ...]:
    return tuple(settings.get(group, {}).get(key) for group, key in kind)


def _counted(
    runs: Iterable[Timed], left_out: str, test_problems: Mapping[str, Any]
) -> tuple[float, list[Mapping[str, Any]]]:
    """Operations of all runs that can be counted in the same way, and these runs' records.

    left_out: what the count leaves out
    """
    total, records = 0.0, list[Mapping[str, Any]]()
    for _, same in groupby(runs, lambda run: (run.experiment, run.record["iterations"])):
        several = list(same)
        settings = OmegaConf.create({**several[0].settings, "run_dir": "unused"})
        try:
            each, without = counted_operations(parse_config(settings), test_problems)
        except (ConfigError, OmegaConfBaseException):  # settings of an older version
            continue
        if without == left_out:
            total += each * len(several)
            records += [run.record for run in several]
    return total, records


def _where(records: Sequence[Mapping[str, Any]], config: Config) -> str:
    """How many runs on which devices, and whether this machine is such a device."""
    devices = sorted({record["device"] for record in records})
    device = config.hardware.device
    own = None if device == "cuda" and not torch.cuda.is_available() else device_name(device)
    here = "" if devices == [own] else ", which is not the device of this machine"
    return f"{len(records)} run{'s' if len(records) > 1 else ''} on {', '.join(devices)}{here}"


def _threads(records: Iterable[Mapping[str, Any]]) -> int | None:
    found = {record.get("threads") for record in records}
    return found.pop() if len(found) == 1 else None
