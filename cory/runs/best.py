"""The agents of the iteration with the best value of a metric, in `best/` of the run directory.

`best/` has what `iterations/<n>` has, so that `init_from` takes it, and `best.json`: metric,
mode, value and iteration. A run that goes on from its newest checkpoint repeats the iterations
after it, to the same values; the agents that are in `best/` by then stay.
"""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from cory import distributed
from cory.config import nearest, require
from cory.episode import Metrics
from cory.runs.durable import sync, sync_tree
from cory.runs.run_dir import BEST, WriteError, write_whole

FILE = "best.json"
EVALUATION = "eval/"  # metrics that only evaluations have


@dataclass(frozen=True)
class Best:
    """What `best.json` says."""

    metric: str
    mode: str  # max | min
    value: float
    iteration: int  # from 0, as in metrics.jsonl; the agents are as after it


class BestAgents:
    """Keeps the best agents of one run. Every process calls each method."""

    def __init__(
        self, run_dir: Path, metric: str, mode: str, export: Callable[[Path, int], None]
    ) -> None:
        """export(folder, done): writes the agents as they are, after `done` iterations."""
        self.metric, self.mode = metric, mode
        self.export = export
        self.place = run_dir / BEST
        self.part = run_dir / f"{BEST}.part"  # while they are written
        self.best: Best | None = None

    def start(self, done: int) -> None:
        """Go on after `done` iterations; 0: whatever an earlier start has left is removed."""
        if distributed.rank() == 0:
            if done == 0:
                shutil.rmtree(self.place, ignore_errors=True)
            elif read_best(self.part) is not None:  # whole: a kill came before it was renamed
                self._replace()
            shutil.rmtree(self.part, ignore_errors=True)
        best: Best | None = distributed.from_first(read_best(self.place))
        if best is not None and (best.metric, best.mode) == (self.metric, self.mode):
            self.best = best

    def offer(self, iteration: int, metrics: Metrics) -> None:
        """Export the agents if this iteration's value is better than all before it.

        ConfigError where an evaluation comes without the metric, and none has had it.
        """
        known = sorted(metrics)
        evaluated = any(name.startswith(EVALUATION) for name in known)
        require(
            self.metric in metrics
            or self.best is not None
            or not (evaluated and self.metric.startswith(EVALUATION)),
            f"keep_best={self.metric} is no metric of this run{nearest(self.metric, known)}",
        )
        value = distributed.from_first(float(metrics.get(self.metric, math.nan)))
        if not math.isfinite(value) or not self._is_better(value):
            return
        if distributed.rank() == 0:
            shutil.rmtree(self.part, ignore_errors=True)
        self.export(self.part, iteration + 1)
        self.best = Best(self.metric, self.mode, value, iteration)
        if distributed.rank() == 0:
            try:
                sync_tree(self.part)
                write_whole(self.part / FILE, json.dumps(asdict(self.best), indent=1) + "\n")
                self._replace()
            except OSError as error:
                raise WriteError(f"{self.place} cannot be written ({error})") from error
        distributed.wait_for_all()

    def _is_better(self, value: float) -> bool:
        if self.best is None:
            return True
        return value > self.best.value if self.mode == "max" else value < self.best.value

    def _replace(self) -> None:
        """Put the agents in `best.part/`, which are written, into `best/`."""
        shutil.rmtree(self.place, ignore_errors=True)
        self.part.rename(self.place)
        sync(self.place.parent)

    def finish(self) -> None:
        """Say which agents were the best."""
        if distributed.rank() != 0:
            return
        if self.best is None:
            print(
                f"note: no iteration had a finite keep_best={self.metric}: there is no {self.place}"
            )
        else:
            print(
                f"best of {self.metric}: {self.best.value:.4g} after iteration "
                f"{self.best.iteration + 1}; these agents are in {self.place}"
            )


def read_best(folder: Path) -> Best | None:
    """What `best.json` in a folder says; None where there is none that can be read."""
    try:
        return Best(**json.loads((folder / FILE).read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
