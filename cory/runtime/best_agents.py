"""The agents of the iteration with the best value of a metric, in `best/` of the run directory.

`best/` has what `iterations/<n>` has, so that `init_from` takes it, and `best.json`: metric,
value and iteration. They are written before the iteration is logged, whole or not at all.

A run that is killed goes on from its newest checkpoint, and trains what came after it again. The
best agents of before that checkpoint are therefore kept in `best.before/` until another checkpoint
has followed the present ones.
"""

import json
import math
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from cory import distributed
from cory.config import nearest, require
from cory.episode import Metrics
from cory.runs.durable import sync, sync_folders
from cory.runs.run_dir import BEST, METRICS, WriteError, read_lines

FILE = "best.json"
EVALUATION = "eval/"  # metrics that only some iterations have


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
        self,
        run_dir: Path,
        metric: str,
        mode: str,
        export: Callable[[Path, int], None],
        saved: Callable[[], int],
    ) -> None:
        """export(folder, done): writes the agents as they are, after `done` iterations.

        saved: iterations before the newest checkpoint
        """
        self.metric, self.mode = metric, mode
        self.export, self.saved = export, saved
        self.place = run_dir / BEST
        self.before = run_dir / f"{BEST}.before"
        self.value: float | None = None
        self.exists = False  # an iteration had the metric, so that others may be without it

    def start(self, logged: int) -> None:
        """Go on after `logged` iterations; agents of later ones are forgotten."""
        if distributed.rank() == 0:
            shutil.rmtree(self._part, ignore_errors=True)  # of a run that was killed
            for folder in (self.place, self.before):
                found = read_best(folder)
                if found is None or found.iteration >= logged:
                    shutil.rmtree(folder, ignore_errors=True)
            if not self.place.exists() and self.before.exists():
                self.before.rename(self.place)
        lines = self.place.parent / METRICS
        known = logged > 0 and lines.exists()
        self.exists = distributed.from_first(
            known and any(self.metric in line for line in read_lines(lines))
        )
        best: Best | None = distributed.from_first(read_best(self.place))
        if best is None:
            return
        if (best.metric, best.mode) == (self.metric, self.mode):
            self.value = best.value
        elif distributed.rank() == 0:
            print(
                f"note: {self.place} is the best by {best.metric} ({best.mode}); from now on "
                f"keep_best={self.metric} ({self.mode}) replaces it",
                file=sys.stderr,
            )

    def offer(self, iteration: int, metrics: Metrics) -> None:
        """Export the agents if this iteration's value is better than all before it."""
        value = distributed.from_first(self._value_in(metrics))
        if value is None or not self._is_better(value):
            return
        part = self._part
        if distributed.rank() == 0:
            shutil.rmtree(part, ignore_errors=True)
        self.export(part, iteration + 1)
        if distributed.rank() == 0:
            best = Best(self.metric, self.mode, value, iteration)
            try:
                (part / FILE).write_text(json.dumps(asdict(best), indent=1) + "\n")
                sync(part / FILE)
                sync_folders(part)
                self._replace(part)
            except OSError as error:
                raise WriteError(f"{self.place} cannot be written ({error})") from error
        self.value = value
        distributed.wait_for_all()

    @property
    def _part(self) -> Path:
        """The best agents while they are written."""
        return self.place.with_name(f"{BEST}.part")

    def _value_in(self, metrics: Metrics) -> float | None:
        """The metric's value; None where this iteration has none.

        ConfigError where none has had it so far and none will: an evaluation came without it, or an
        iteration in which no other metric was of its agent, role or turn, which may have had
        nothing to learn yet.
        """
        if self.metric in metrics:
            self.exists = True
            value = float(metrics[self.metric])
            return value if math.isfinite(value) else None
        known = sorted(name for name in metrics if not name.startswith("time/"))
        if self.metric.startswith(EVALUATION):
            may_come = not any(name.startswith(EVALUATION) for name in known)
        else:
            about = self.metric.rpartition("/")[2]
            may_come = any(name.endswith(f"/{about}") for name in known)
        require(
            self.exists or may_come,
            f"keep_best={self.metric} is no metric of this run{nearest(self.metric, known)}",
        )
        return None

    def _is_better(self, value: float) -> bool:
        if self.value is None:
            return True
        return value > self.value if self.mode == "max" else value < self.value

    def _replace(self, part: Path) -> None:
        """Put the new ones into `best/`, and what a resume would need into `best.before/`."""
        earlier = read_best(self.place)
        if earlier is not None and earlier.iteration < self.saved():
            shutil.rmtree(self.before, ignore_errors=True)
            self.place.rename(self.before)
        else:
            shutil.rmtree(self.place, ignore_errors=True)
        part.rename(self.place)
        sync(self.place.parent)

    def finish(self) -> None:
        """Remove what only a resume would need."""
        if distributed.rank() != 0:
            return
        shutil.rmtree(self.before, ignore_errors=True)
        best = read_best(self.place)
        if best is None:
            print(
                f"note: no iteration had a finite keep_best={self.metric}: there is no {self.place}"
            )
        else:
            print(
                f"best of {best.metric}: {best.value:.4g} after iteration {best.iteration + 1}; "
                f"these agents are in {self.place}"
            )


def read_best(folder: Path) -> Best | None:
    """What `best.json` in a folder says; None where there is none that can be read."""
    try:
        return Best(**json.loads((folder / FILE).read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
