"""DeepSpeed around one agent's trainable parameters."""

from __future__ import annotations

import logging
import os
import socket
from typing import Any

import deepspeed
import torch
from deepspeed.ops import __compatible_ops__ as deepspeed_ops
from torch import Tensor, nn

from cory.config import BatchPlan, HardwareConfig, PPOConfig


def deepspeed_settings(
    hardware: HardwareConfig, plan: BatchPlan, precision: str, max_grad_norm: float | None
) -> dict[str, Any]:
    """The dictionary that DeepSpeed is started with."""
    return {
        "train_micro_batch_size_per_gpu": plan.microbatch,
        "gradient_accumulation_steps": plan.accumulation,
        "gradient_clipping": 0.0 if max_grad_norm is None else max_grad_norm,
        "zero_optimization": {"stage": hardware.zero_stage},
        "bf16": {"enabled": precision == "bf16"},
        # our own AdamW below: DeepSpeed's are compiled at first use
        "zero_allow_untested_optimizer": True,
        "steps_per_print": 10**9,
        "wall_clock_breakdown": False,
    }


def start_process_group(device: str) -> None:
    """Join the process group that the environment describes; alone when it describes none."""
    if "RANK" not in os.environ:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        os.environ.update(
            RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
        )
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    # The shared-memory op of DeepSpeed's CPU backend takes a minute to compile; gloo is enough.
    if "deepspeed_shm_comm" in deepspeed_ops:
        deepspeed_ops["deepspeed_shm_comm"] = False
    deepspeed.init_distributed("nccl" if device == "cuda" else "gloo", verbose=False)


def stop_process_group() -> None:
    """Leave the group; without this the interpreter may abort at exit."""
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


class Engine:
    """One agent's model under DeepSpeed: forward, backward, step."""

    def __init__(
        self,
        model: nn.Module,
        algorithm: PPOConfig,
        hardware: HardwareConfig,
        plan: BatchPlan,
        precision: str,
    ) -> None:
        optimizer = torch.optim.AdamW(
            [p for p in model.parameters() if p.requires_grad],
            lr=algorithm.learning_rate,
            weight_decay=algorithm.weight_decay,
        )
        self.accumulation = plan.accumulation
        self._engine, self._optimizer, _, _ = deepspeed.initialize(
            model=model,
            optimizer=optimizer,
            config=deepspeed_settings(hardware, plan, precision, algorithm.max_grad_norm),
        )

    def __call__(self, *inputs: Tensor) -> Any:
        return self._engine(*inputs)

    def backward(self, loss: Tensor) -> None:
        """Add one microbatch's part of a minibatch loss to the gradient.

        loss: scalar; the parts of a minibatch add up to its loss
        """
        # DeepSpeed divides by the number of microbatches, because it expects means
        self._engine.backward(loss * self.accumulation)

    def step(self) -> None:
        """Step the optimiser once the last microbatch of a minibatch is in; else only count."""
        self._engine.step()

    def moments(self) -> list[dict[str, Any]]:
        """Adam's state of each parameter (or flat partition) that has one."""
        inner = getattr(self._optimizer, "optimizer", self._optimizer)
        return [state for state in inner.state.values() if state]

    def reset_optimizer(self) -> None:
        """Forget Adam's moments and step counts."""
        for state in self.moments():
            state.clear()
