"""What all trainers share: minibatches and optimiser steps on them, time, kept state."""

import copy
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor

from cory import distributed
from cory.config import AlgorithmConfig
from cory.episode import Metrics
from cory.functional.losses import share_of_peak
from cory.models.policy import Policy
from cory.runs.files import Line, write_whole

Row = TypeVar("Row")  # of a minibatch


def minibatches(
    rows: Sequence[Row], size: int, epochs: int, stream: torch.Generator
) -> Iterator[list[Row | None]]:
    """Every minibatch of every epoch; each epoch in an order of its own.

    Each is filled up with None, which stands for a row without tokens: an epoch's last minibatch to
    the size of the others, and every minibatch to a multiple of the number of processes.
    """
    filled = size + -size % distributed.count()
    for _ in range(epochs):
        order = torch.randperm(len(rows), generator=stream).tolist()
        for start in range(0, len(rows), size):
            chosen = [rows[number] for number in order[start : start + size]]
            yield [*chosen, *[None] * (filled - len(chosen))]


@dataclass(frozen=True)
class Stage:
    """A stretch of training over which the learning rate follows its schedule once.

    It has parts of equal length, such as the iterations of a run, however many steps each takes:
    how many an iteration of examples takes is not known before they are collected.
    """

    part: int  # the present one, from 0
    parts: int
    peak: float  # the highest learning rate


def paced(
    policy: Policy,
    rows: Sequence[Row],
    epochs: int,
    stage: Stage,
    settings: AlgorithmConfig,
    stream: torch.Generator,
) -> Iterator[list[Row | None]]:
    """The minibatches of a part of a stage, each once its learning rate is set.

    The rate is the schedule's value at the middle of the step, so that no step has a rate of 0. It
    depends on the place in the run alone, so that a resumed run goes on with the same rates.
    """
    steps = epochs * math.ceil(len(rows) / settings.minibatch_size)
    batches = minibatches(rows, settings.minibatch_size, epochs, stream)
    for number, batch in enumerate(batches):
        progress = (stage.part + (number + 0.5) / steps) / stage.parts
        share = share_of_peak(progress, settings.schedule, settings.warmup, settings.final_share)
        policy.engine.set_learning_rate(stage.peak * share)
        yield batch


def optimiser_step(
    policy: Policy,
    rows: Sequence[Row],
    microbatch: int,
    objective: Callable[[list[Row]], tuple[Tensor, Mapping[str, Tensor]]],
    lengths: Sequence[int],
) -> dict[str, float]:
    """One optimiser step on a minibatch, of which each process takes its own rows.

    rows: as many for every process
    objective: rows of a microbatch -> their part of the minibatch's loss, with gradient; and
        numbers to add up over the minibatch
    lengths: tokens of each row; those of similar length share a microbatch, with less padding
    returns: those sums over all processes; and `gradient_norm`, before clipping
    """
    own = sorted(range(len(rows))[distributed.own_rows(len(rows))], key=lambda n: lengths[n])
    sums: dict[str, Tensor] = {}
    norm = None
    for start in range(0, len(own), microbatch):
        loss, numbers = objective([rows[n] for n in own[start : start + microbatch]])
        policy.engine.backward(loss)
        norm = policy.engine.step()
        sums |= {key: sums.get(key, torch.zeros(())) + number for key, number in numbers.items()}
    assert norm is not None, "the last microbatch steps the optimiser"
    totals = distributed.summed(torch.stack(list(sums.values()))).tolist()
    return dict(zip(sums, totals, strict=True)) | {"gradient_norm": norm}


def add_step(sums: dict[str, float], step: Mapping[str, float]) -> bool:
    """Add the numbers of an optimiser step; False where some are not finite: it is the last one.

    These are sums over all processes, so every process stops at the same step.
    """
    for key, value in step.items():
        sums[key] = sums.get(key, 0.0) + value
    return all(map(math.isfinite, step.values()))


class Clock:
    """Seconds spent per phase of an iteration."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.mark = time.perf_counter()

    def lap(self, phase: str) -> None:
        """Count the time since the last call towards `phase`."""
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self.mark
        self.mark = now

    def metrics(self) -> Metrics:
        """`time/<phase>` and their sum."""
        named = {f"time/{phase}": seconds for phase, seconds in self.seconds.items()}
        return named | {"time/iteration_s": sum(self.seconds.values())}


class TrainingDiverged(RuntimeError):
    """A metric is no longer finite."""

    def __init__(self, iteration: int, metric: str, metrics: Metrics) -> None:
        """iteration: from 0; the message counts from 1, as the progress bar does"""
        super().__init__(f"iteration {iteration + 1}: {metric} is not finite; the run was stopped")
        self.metrics = metrics


def require_finite(iteration: int, metrics: Metrics) -> None:
    """TrainingDiverged where a metric is not finite."""
    for key, value in metrics.items():
        if not math.isfinite(value):
            raise TrainingDiverged(iteration, key, metrics)


class Stateful(Protocol):
    """A component whose state must survive a restart."""

    def state_dict(self) -> dict[str, Any]:
        """Its state: tensors and plain values."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""


class Resumable:
    """A component whose state is that of its parts and some of its attributes."""

    kept: ClassVar[tuple[str, ...]] = ()  # names of these; their values are plain

    def parts(self) -> Mapping[str, Stateful]:
        """The parts, by the names that they have in the state."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """All that an iteration changes except weights and optimisers, which the engines keep."""
        states = {name: part.state_dict() for name, part in self.parts().items()}
        return states | {name: copy.deepcopy(getattr(self, name)) for name in self.kept}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, part in self.parts().items():
            part.load_state_dict(state[name])
        vars(self).update({name: copy.deepcopy(state[name]) for name in self.kept})


def export_examples(run_dir: Path, iteration: int, policy: str, rows: Iterable[Line]) -> None:
    """Write what a policy learns from this iteration on to `examples/`; none writes no file.

    iteration: from 0, as in the name of its folder from 1
    Every process calls this, and one writes.
    """
    if distributed.rank() == 0 and (
        text := "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    ):
        path = run_dir / "examples" / str(iteration + 1) / f"{policy}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
