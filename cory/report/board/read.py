"""A run directory as the page needs it; damaged ones are refused in one line."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from cory.report.board.lines import Column, columns_of
from cory.runs.run_dir import (
    METRICS,
    RECORD,
    SAMPLES,
    TIMES,
    line_of,
    read_lines,
    read_record,
)
from cory.runs.stored_settings import read_settings, require_every_group

# iterations that an end value is averaged over; the summary of a run and `cory-compare` take as
# many values instead, which are the same where a metric is logged at every iteration
LAST = 10


@dataclass(frozen=True)
class Run:
    """What one directory holds.

    record: None where the run is not finished
    """

    path: Path
    settings: DictConfig
    columns: dict[str, Column]
    samples: list[dict[str, Any]]
    record: dict[str, Any] | None

    def end_values(self) -> dict[str, float]:
        """Metric -> its value at the end.

        The mean over the last ten iterations, of those that have it; where none has it, and of
        evaluations, the last value.
        """
        last = max(int(column.iterations[-1]) for column in self.columns.values())
        values = {}
        for name, column in self.columns.items():
            late = column.values[column.iterations > last - LAST]
            single = name.startswith("eval/") or len(late) == 0
            values[name] = float(column.values[-1] if single else late.mean())
        return values

    def iterations(self) -> int:
        """How many iterations are logged; 0 where agents were evaluated alone."""
        if self.settings.algorithm.iterations == 0:
            return 0
        return max(int(column.iterations[-1]) for column in self.columns.values()) + 1


def read_run(run_dir: Path) -> Run:
    """Read settings, metrics, times, samples and record.

    Raises ValueError, in one line, for a run that is damaged or has nothing to show; OSError.
    """
    settings = read_settings(run_dir)
    require_every_group(settings, str(run_dir))
    record = read_record(run_dir)
    if record is None and (run_dir / RECORD).exists():
        raise ValueError(f"{run_dir}: its {RECORD} cannot be read")
    if record is not None:
        for row in record.get("before_after", []):
            if not {"metric", "before", "after", "low", "high", "n"} <= row.keys():
                raise ValueError(f"{run_dir}: its {RECORD} holds a torn table of before and after")
    finished = record is not None
    lines = _lines(run_dir / METRICS, finished)
    logged = {line.get("iteration") for line in lines}
    if not all(isinstance(iteration, int) for iteration in logged):
        raise ValueError(f"{run_dir / METRICS}: a line has no iteration")
    # of an iteration that is being written the times are there first
    times = _lines(run_dir / TIMES, finished) if (run_dir / TIMES).exists() else []
    columns = columns_of(lines + [line for line in times if line.get("iteration") in logged])
    if not columns:
        raise ValueError(f"{run_dir}: {METRICS} holds no number yet")
    samples = _lines(run_dir / SAMPLES, finished) if (run_dir / SAMPLES).exists() else []
    for number, line in enumerate(samples, 1):
        if not _is_sample(line):
            raise ValueError(f"{run_dir / SAMPLES}, line {number}: it is no sample")
    return Run(run_dir, settings, columns, samples, record)


def _is_sample(line: dict[str, Any]) -> bool:
    turns = line.get("turns")
    return (
        isinstance(line.get("iteration"), int)
        and {"kind", "prompt"} <= line.keys()
        and isinstance(turns, list)
        and all(isinstance(turn, dict) for turn in turns)
    )


def _lines(path: Path, finished: bool) -> list[dict[str, Any]]:
    """The lines of a file; while a run works, without a last one that is half written."""
    if finished:
        return read_lines(path)
    rows = path.read_bytes().split(b"\n")[:-1]
    try:
        return [line_of(row) for row in rows if row]
    except (ValueError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: {error}") from None
