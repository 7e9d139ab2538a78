"""Disk space that a run's checkpoints and exported agents need, beside what there is."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cory.config import Config, require
from cory.memory.estimate import (
    MASTER,
    MOMENTS,
    WEIGHTS,
    WEIGHTS_SHARE,
    Usage,
    kept_bytes,
)
from cory.runs.run_dir import CHECKPOINTS

GIB = 2**30
PARTNER = " (partner)"  # ends the rows of a second model


@dataclass(frozen=True)
class DiskUsage:
    """Bytes that a run writes if nothing interrupts it.

    Small files and the state beside the engines are not counted.
    """

    checkpoint: int  # weights and kept optimisers of all policies, over all processes
    at_once: int  # checkpoints on the disk at the same time, at most: the next one is written first
    exports: int  # agents at the end, after every `export_every` iterations, and the best ones

    @property
    def most(self) -> int:
        """Everything, at its highest; policies that have not changed are linked, which is less."""
        return self.at_once * self.checkpoint + self.exports


def disk_usage(config: Config, rows: Sequence[Usage]) -> DiskUsage:
    """The disk space of a run; rows: the memory of one of its processes."""
    hardware, iterations = config.hardware, config.algorithm.iterations
    if iterations == 0:
        return DiskUsage(0, 0, 0)

    def written(processes: int, *names: str) -> int:
        own = (row.bytes for row in rows if row.what.removesuffix(PARTNER) in names)
        return processes * sum(own)

    algorithm = config.algorithm
    together = algorithm.one_engine(config.model.sharing)
    policies = algorithm.policy_count() if together else 1  # of an engine
    weights = policies * (written(1, WEIGHTS) + written(hardware.world, WEIGHTS_SHARE))
    # without splitting the first process writes for all
    owners = 1 if hardware.zero_stage == 0 else hardware.world
    checkpoint = weights + written(owners, MASTER, MOMENTS)
    if algorithm.new_each_training():
        exact = policies * written(owners, MASTER) or weights  # 4 bytes of each weight
        checkpoint = exact * kept_bytes(config, config.model) // 4
    # else the last one alone: it is written whatever `checkpoint_every` says
    at_once = min(config.keep_last, iterations + 1) + 1 if config.checkpoint_every else 1
    if together:  # policies are linked, or not written, until their next training has ended
        at_once = min(at_once, iterations)
    # those of the last iteration are the agents at the end
    exports = 1 + ((iterations - 1) // config.export_every if config.export_every else 0)
    return DiskUsage(checkpoint, at_once, (exports + best_exports(config)) * weights)


def best_exports(config: Config) -> int:
    """How many times `keep_best` holds all agents at the same time, at most.

    In `best/`, and in `best.part/` while better ones are written (`cory/runs/best.py`).
    """
    if config.keep_best is None:
        return 0
    iterations: int = config.algorithm.iterations  # each may have better agents, once
    return min(2, iterations)


def room_for(run_dir: Path) -> int:
    """Free bytes of the disk of a run directory; those of its present checkpoints count as free."""
    place = run_dir.absolute()
    while not place.exists():
        place = place.parent
    own = (path for path in (run_dir / CHECKPOINTS).rglob("*") if path.is_file())
    present = {(status := path.stat()).st_ino: status.st_size for path in own}
    return shutil.disk_usage(place).free + sum(present.values())


def disk_line(config: Config, rows: Sequence[Usage]) -> str:
    """What a run writes, and what there is room for."""
    found = disk_usage(config, rows)
    return (
        f"disk, GiB: {found.checkpoint / GIB:.2f} a checkpoint, of which {found.at_once} at once, "
        f"and {found.exports / GIB:.2f} of exported agents: {found.most / GIB:.2f} at most; "
        f"free: {room_for(Path(config.run_dir)) / GIB:.2f}"
    )


def disk_warning(config: Config, rows: Sequence[Usage]) -> str | None:
    """A warning where the disk may not hold a run; ConfigError where no checkpoint fits."""
    found, room = disk_usage(config, rows), room_for(Path(config.run_dir))
    require(
        found.checkpoint <= room,
        f"run_dir={config.run_dir}: a checkpoint takes {found.checkpoint / GIB:.2f} GiB, and the "
        f"disk has {room / GIB:.2f} GiB free; preflight_only=true says of what",
    )
    if found.most <= room:
        return None
    several = f"up to {found.at_once} checkpoints at once" if found.at_once > 1 else "a checkpoint"
    fewer = config.keep_last > 1 and found.at_once > 2
    return (
        f"warning: {several} and the exported agents take {found.most / GIB:.2f} GiB, and "
        f"the disk of run_dir has {room / GIB:.2f} GiB free: a checkpoint may fail"
        + ("; keep_last=1 needs one checkpoint less" if fewer else "")
    )
