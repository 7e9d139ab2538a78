"""Settings of `hardware=`: they may change speed, never the result beyond rounding."""

import os
from dataclasses import dataclass

from cory.config.checks import exact_div, require, require_at_least, require_choice


@dataclass
class HardwareConfig:
    """Settings of `hardware=`."""

    name: str
    device: str  # cpu | cuda
    nodes: int  # machines, each started by the same command
    processes: int  # per node
    rendezvous: str | None  # host:port of one of several nodes
    zero_stage: int  # DeepSpeed ZeRO stage
    keep_whole_below: int  # ZeRO-3: weights of fewer elements stay whole in every process
    offload_optimizer: bool  # Adam's state in main memory (stage 1 and above)
    offload_parameters: bool  # weights in main memory (stage 3)
    gradient_checkpointing: bool  # activations are computed again in the backward pass
    routed_reference: bool  # adapters: policy and reference in one pass
    microbatch_size: int  # at most this many turns per forward and backward pass
    rollout_batch_size: int  # at most this many turns per scoring pass
    generation_batch_size: int | None  # at most this many per generation pass; None: as many
    cuda_graphs: bool  # while generating, the pass of each token is replayed as a CUDA graph

    def __post_init__(self) -> None:
        require_choice("hardware.device", self.device, ("cpu", "cuda"))
        require_choice("hardware.zero_stage", self.zero_stage, (0, 1, 2, 3))
        for key in ("nodes", "processes", "microbatch_size", "rollout_batch_size"):
            require_at_least(f"hardware.{key}", getattr(self, key), 1)
        if self.generation_batch_size is not None:
            require_at_least("hardware.generation_batch_size", self.generation_batch_size, 1)
        require_at_least("hardware.keep_whole_below", self.keep_whole_below, 0)
        require(
            self.nodes == 1 or self.rendezvous is not None,
            f"hardware.nodes={self.nodes} needs hardware.rendezvous=host:port, a port on one of "
            f"the nodes that all of them reach",
        )
        require(
            self.rendezvous is None or is_address(self.rendezvous),
            f"hardware.rendezvous must be host:port, the port from 1 to 65535, got "
            f"{self.rendezvous}",
        )
        require(
            not self.offload_optimizer or self.zero_stage > 0,
            "hardware.offload_optimizer=true needs hardware.zero_stage of at least 1, got 0",
        )
        require(
            not self.offload_parameters or self.zero_stage == 3,
            f"hardware.offload_parameters=true needs hardware.zero_stage=3, got {self.zero_stage}",
        )
        require(
            not self.offload_parameters or self.offload_optimizer,
            "hardware.offload_parameters=true needs hardware.offload_optimizer=true: what is "
            "updated lies in main memory then",
        )

    @property
    def responses_at_once(self) -> int:
        """Turns per generation pass of one process."""
        return self.generation_batch_size or self.rollout_batch_size

    @property
    def world(self) -> int:
        """Processes on all nodes together."""
        return self.nodes * self.processes

    @property
    def shares_cores(self) -> bool:
        """Whether several runs can work side by side: on the cores of one machine."""
        return self.device == "cpu" and self.nodes == 1


def is_address(text: str) -> bool:
    """Whether a text is host:port, as a rendezvous needs it."""
    host, _, port = text.rpartition(":")
    digits = port.isascii() and port.isdigit() and len(port) <= 5
    return bool(host.strip()) and digits and 0 < int(port) < 2**16


def cores() -> int:
    """Number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class BatchPlan:
    """Numbers derived from the three configured batch sizes and the number of processes."""

    minibatches: int  # optimiser steps per epoch
    microbatch: int  # turns per forward and backward pass of one process
    accumulation: int  # microbatches per optimiser step


def batch_plan(
    prompts: int, turns: int, minibatch: int, microbatch: int, processes: int, fills: bool = False
) -> BatchPlan:
    """Derives the plan; ConfigError where a division leaves a remainder.

    turns: from which one policy learns in an iteration
    fills: a minibatch of fewer turns than processes is filled up with absent ones, one process each
    """
    keys = ("algorithm.prompts_per_iteration", "algorithm.minibatch_size")
    if turns != prompts:
        keys = ("the turns that each policy takes in an iteration", keys[1])
    minibatches = exact_div(turns, minibatch, *keys)
    alone = fills and minibatch < processes
    share = 1 if alone else exact_div(minibatch, processes, keys[1], "the number of processes")
    micro = min(microbatch, share)
    share_key = keys[1] if processes == 1 else f"{keys[1]} per process"
    accumulation = exact_div(share, micro, share_key, "hardware.microbatch_size")
    return BatchPlan(minibatches, micro, accumulation)
