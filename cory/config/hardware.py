"""Settings of `hardware=`: they may change speed, never the result beyond rounding."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from cory.config.base import Conflict, Count, Number, Settings, Text
from cory.config.errors import require


class HardwareConfig(Settings):
    """Settings of `hardware=`."""

    name: Text
    device: Literal["cpu", "cuda"]
    nodes: Count  # machines, each started by the same command
    processes: Count  # per node
    rendezvous: Annotated[Text, Field(pattern=r"^\S+:[0-9]{1,5}$")] | None  # host:port of a node
    zero_stage: Literal[0, 1, 2, 3]
    keep_whole_below: Number  # ZeRO-3: weights of fewer elements stay whole in every process
    offload_optimizer: bool
    offload_parameters: bool
    gradient_checkpointing: bool
    microbatch_size: Count  # at most this many turns per forward and backward pass
    rollout_batch_size: Count  # at most this many turns per scoring pass
    generation_batch_size: Count | None  # at most this many per generation pass; None: as many
    cuda_graphs: bool

    def conflicts(self) -> Iterator[Conflict]:
        if self.nodes > 1 and self.rendezvous is None:
            yield "nodes", "needs hardware.rendezvous=host:port, which all nodes reach"

    @property
    def responses_at_once(self) -> int:
        """Turns per generation pass of one process."""
        return self.generation_batch_size or self.rollout_batch_size

    @property
    def world(self) -> int:
        """Processes on all nodes together."""
        return self.nodes * self.processes


def cores() -> int:
    """Number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class BatchPlan:
    """Numbers derived from the three configured batch sizes and the number of processes."""

    microbatch: int  # turns per forward and backward pass of one process
    accumulation: int  # microbatches per optimiser step


def batch_plan(
    turns: int, minibatch: int, microbatch: int, processes: int, fills: bool = False
) -> BatchPlan:
    """Derives the plan; ConfigError where a division leaves a remainder.

    turns: from which one policy learns in an iteration
    fills: a minibatch of fewer turns than processes is filled up with absent ones, one process each
    """
    key = f"algorithm.minibatch_size={minibatch}"
    require(turns % minibatch == 0, f"{key}: must divide a policy's {turns} turns per iteration")
    alone = fills and minibatch < processes
    whole = alone or minibatch % processes == 0
    require(whole, f"{key}: must be a multiple of the number of processes, {processes}")
    share = 1 if alone else minibatch // processes
    micro = min(microbatch, share)
    times = "" if processes == 1 else f" times the number of processes, {processes}"
    most = f"hardware.microbatch_size={micro}{times}"
    require(share % micro == 0, f"{key}: must be a multiple of {most}")
    return BatchPlan(micro, share // micro)
