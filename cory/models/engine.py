"""DeepSpeed engines: one around each agent's trainable parameters."""

import logging
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from cory import distributed
from cory.config import AlgorithmConfig, BatchPlan, HardwareConfig
from cory.models.actor_critic import DTYPES, ActorCriticModel, Outputs, is_of_head
from cory.models.loading import load_plain

# else DeepSpeed guesses while it is imported, and says so
os.environ.setdefault("DS_ACCELERATOR", "cuda" if torch.cuda.is_available() else "cpu")

import deepspeed
from deepspeed.constants import default_pg_timeout
from deepspeed.ops import __compatible_ops__ as deepspeed_ops

# of bitsandbytes: which number each code of an 8-bit moment stands for; the same in every state
CODES = ("qmap1", "qmap2")


def deepspeed_settings(
    hardware: HardwareConfig, plan: BatchPlan, precision: str, max_grad_norm: float | None
) -> dict[str, Any]:
    zero: dict[str, Any] = {"stage": hardware.zero_stage}
    if hardware.zero_stage > 0:
        # DeepSpeed's 500 million would reserve gigabytes for a buffer that small models never fill
        zero["reduce_bucket_size"] = 50_000_000
    if hardware.zero_stage == 3:
        zero["stage3_param_persistence_threshold"] = hardware.keep_whole_below
    if hardware.offload_optimizer:
        zero["offload_optimizer"] = {"device": "cpu"}
    if hardware.offload_parameters:
        zero["offload_param"] = {"device": "cpu"}
    return {
        "train_micro_batch_size_per_gpu": plan.microbatch,
        "gradient_accumulation_steps": plan.accumulation,
        "gradient_clipping": 0.0 if max_grad_norm is None else max_grad_norm,
        "zero_optimization": zero,
        "bf16": {"enabled": precision == "bf16"},
        # torch's AdamW above, also where Adam's state is offloaded: DeepSpeed's own ones are
        # compiled at first use, and with them a resumed run is not the same to the last bit
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 10**9,
    }


def new_optimiser(trainable: Mapping[str, Parameter], settings: AlgorithmConfig) -> Any:
    """AdamW: torch's, or bitsandbytes' with both moments in 8 bits.

    The latter (Dettmers et al., 2022) keeps moments of fewer than 4,096 elements in 32 bits.

    trainable: weights by name. Those of a value head with a rate of its own are a group apart; each
        group has its multiple of `algorithm.learning_rate`, `factor`.
    """
    factor = settings.value_rate_factor()
    groups: list[dict[str, Any]] = [{"params": list(trainable.values()), "factor": 1.0}]
    if factor != 1.0:
        head = [weight for name, weight in trainable.items() if is_of_head(name)]
        rest = [weight for name, weight in trainable.items() if not is_of_head(name)]
        groups = [{"params": rest, "factor": 1.0}, {"params": head, "factor": factor}]
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.optimizer == "adamw_8bit":
        from bitsandbytes.optim import AdamW8bit  # noqa: PLC0415  three seconds, and seldom needed

        return AdamW8bit(groups, lr=rate, weight_decay=decay)
    # fused: one pass over the weights instead of one per operation
    return torch.optim.AdamW(groups, lr=rate, weight_decay=decay, fused=True)


def start_process_group(device: str) -> None:
    """Join the process group that the environment describes; alone when it describes none."""
    alone: dict[str, Any] = {}
    if os.environ.get("WORLD_SIZE", "1") == "1" and "MASTER_ADDR" not in os.environ:
        os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
        # no port, which a run beside this one could take
        store = torch.distributed.HashStore()  # type: ignore[attr-defined]  # not in its stubs
        alone = {"store": store, "rank": 0, "world_size": 1}
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    # The shared-memory op of DeepSpeed's CPU backend takes a minute to compile; gloo is enough.
    deepspeed_ops["deepspeed_shm_comm"] = False
    backend, bound = "gloo", None
    if device == "cuda":
        backend, bound = "nccl", torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(bound)
    if not torch.distributed.is_initialized():
        # by torch, which is told the device: NCCL would guess it from the rank, and warn of it
        torch.distributed.init_process_group(
            backend, timeout=default_pg_timeout, device_id=bound, **alone
        )
    deepspeed.init_distributed(backend, verbose=False)


def stop_process_group() -> None:
    """Leave the process group; without this the interpreter may abort at exit."""
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


class Engine:
    """One agent's model under DeepSpeed: forward, backward, step.

    Each agent has an engine of its own, also where several share one base: one engine over two
    adapters moves the one that was not trained (zero gradients still meet Adam's momentum). Agents
    with full copies that begin every training with a new optimiser use one (StoredWeights).
    """

    def __init__(
        self,
        model: ActorCriticModel,
        settings: AlgorithmConfig,
        hardware: HardwareConfig,
        plan: BatchPlan,
        precision: str,
        siblings: "list[Engine]",
    ) -> None:
        """siblings: the engines over the same language model; this one adds itself."""
        self.model = model
        self.precision = precision
        self.accumulation = plan.accumulation
        self.stage = hardware.zero_stage
        self.partitioned = self.stage == 3
        self._is_whole = False  # inside `whole`
        self.keeps_moments = not settings.new_each_training  # in checkpoints
        # of the weights, between two trainings
        self.kept_precision = torch.float32 if settings.trains_on() else DTYPES[precision]
        model.activate()
        self.trainable = model.trainable()
        self._engine, self._optimizer, _, _ = deepspeed.initialize(
            model=model,
            optimizer=new_optimiser(self.trainable, settings),
            config=deepspeed_settings(hardware, plan, precision, settings.max_grad_norm),
        )
        if self.stage == 0 and precision == "fp32" and distributed.count() == 1:
            # the mean over one process: DeepSpeed would copy every gradient to and fro for it
            self._engine.enable_backward_allreduce = False
        self.version = 0  # another one whenever weights have changed
        self.changed = False  # whether weights or optimiser may have, since it was last set
        self.occupant: Any = None  # the `StoredWeights` that it holds, if several policies use it
        # at stage 0 in half precision DeepSpeed steps once with zero gradients, which Adam counts
        self.reset_optimizer()
        self.hooked = self.partitioned
        self._siblings = siblings
        siblings.append(self)

    def __call__(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        response_mask: Tensor,
        *reference: Any,
        **more: Any,
    ) -> Outputs:
        """As `ActorCriticModel.forward`, in every process as often."""
        inputs = input_ids, attention_mask, response_mask, *reference
        self._hook(self if self.partitioned else None)
        if self.partitioned:  # each call of the head fetches its weights from all processes
            more["most"] = distributed.largest(response_mask.sum())
        outputs: Outputs = self._engine(*inputs, **more)
        return outputs

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of one microbatch's part of a minibatch's loss.

        loss: scalar; the minibatch's loss is the sum over its microbatches and all processes
        """
        self.changed = True
        # DeepSpeed divides by the number of microbatches and of processes: it expects means
        self._engine.backward(loss * self.accumulation * distributed.count())

    def step(self) -> float | None:
        """Step the optimiser after the last microbatch of a minibatch; before, only count.

        returns: norm of the minibatch's gradient before clipping; None before the last microbatch
        """
        due = self._engine.is_gradient_accumulation_boundary()
        norm = None
        if due and self.stage == 0 and self.precision == "fp32":  # where DeepSpeed computes none
            gradients = [p.grad for p in self.trainable.values() if p.grad is not None]
            # squares are added up in float32 along rows only: over a million of them it is off in
            # the fifth digit
            rows = torch.cat([torch.linalg.vector_norm(g, dim=-1).flatten() for g in gradients])
            norm = float(rows.norm(dtype=torch.float64))
        self._engine.step()
        if not due:
            return None
        self.version += 1
        if norm is None:
            norm = self._engine.get_global_grad_norm()
        return math.nan if norm is None else float(norm)

    @property
    def learning_rate(self) -> float:
        """The learning rate of the following steps, of all weights but a value head's own."""
        return float(self._optimizer.param_groups[0]["lr"])

    def set_learning_rate(self, value: float) -> None:
        """Set the learning rate of the following steps; a value head's own in proportion."""
        self.changed = True
        for group in self._optimizer.param_groups:
            group["lr"] = group["factor"] * value

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Gather all weights of the model, for passes without gradient.

        Under ZeRO-3 they are gathered once, instead of layer by layer at every token. Around
        several passes that do so it gathers them once for all of these. Changes to them are lost.
        """
        if not self.partitioned or self._is_whole:
            yield
            return
        self._hook(None)
        with deepspeed.zero.GatheredParameters(list(self.model.parameters())):
            self._is_whole = True
            try:
                yield
            finally:
                self._is_whole = False

    def _hook(self, acting: "Engine | None") -> None:
        """Under ZeRO-3, let only `acting` fetch and release weights layer by layer.

        DeepSpeed does that in hooks on every layer. Engines over one language model would fetch
        for each other, and passes over gathered weights need no hooks at all.
        """
        for engine in self._siblings:
            if engine.hooked and engine is not acting:
                offload = engine._optimizer.parameter_offload
                for hook in (*offload.forward_hooks, *offload.backward_hooks):
                    hook.remove()
                offload.forward_hooks.clear()
                offload.backward_hooks.clear()
                parameters: list[Any] = list(engine.model.parameters())  # as DeepSpeed extends them
                for parameter in parameters:
                    parameter.ds_active_sub_modules.clear()
                engine.hooked = False
        if acting is not None and not acting.hooked:
            offload = acting._optimizer.parameter_offload
            offload._register_deepspeed_module(offload.module)
            acting.hooked = True

    def own_parts(self) -> dict[str, Tensor]:
        """The part of each weight of the model that this process holds, trained or not."""
        return {n: getattr(p, "ds_tensor", p).detach() for n, p in self.model.named_parameters()}

    def moments(self) -> Any:
        """Adam's state by the weight that is stepped on; at stage 0 none before the first step."""
        return getattr(self._optimizer, "optimizer", self._optimizer).state

    def reset_optimizer(self) -> None:
        """Forget Adam's moments and step counts."""
        self.changed = True
        for state in self.moments().values():
            for name, value in state.items():
                if not isinstance(value, Tensor):
                    state[name] = 0  # bitsandbytes counts steps in a plain number
                elif name not in CODES:  # 8-bit moments are codes times a scale, which is 0 then
                    value.zero_()

    @torch.no_grad()
    def set_weights(self, named: Mapping[str, Tensor]) -> None:
        """Overwrite trained weights; Adam's moments stay.

        named: whole weights, by their names in `trainable`; all others stay as they are
        """
        self._begin_change()
        for name, value in named.items():  # one after another: all together take a GPU's memory
            weight = self.trainable[name]
            # every process writes the same; the first one's are kept
            with deepspeed.zero.GatheredParameters(weight, 0, enabled=self.partitioned):
                weight.copy_(value)
        # DeepSpeed's own float32 copies, where it keeps some
        refresh = getattr(self._optimizer, "refresh_fp32_params", None)
        if refresh is not None:
            refresh()

    def stepped_weights(self) -> list[Tensor]:
        """This process's part of the weights that are stepped on; flat where a stage splits them.

        In half precision, and at ZeRO stages 1 to 3 in float32, too, the weights of the passes are
        another set: those of this set, rounded. So this set alone says what the weights are.
        """
        for name in ("fp32_partitioned_groups_flat", "single_partition_of_fp32_groups"):
            if hasattr(self._optimizer, name):  # stage 3; stages 1 and 2
                return list(getattr(self._optimizer, name))
        if hasattr(self._optimizer, "fp32_groups"):  # stage 0 in half precision
            return [weight for group in self._optimizer.fp32_groups for weight in group]
        return list(self.trainable.values())

    def kept_weights(self) -> list[Tensor]:
        """A copy of `stepped_weights` in main memory, as precise as between two trainings."""
        weights = self.stepped_weights()
        return [weight.detach().to("cpu", self.kept_precision, copy=True) for weight in weights]

    @torch.no_grad()
    def set_stepped_weights(self, values: Sequence[Tensor]) -> None:
        """Overwrite them, and round the weights of the passes from them; called by every process.

        values: as `stepped_weights` returned them, in any precision and on any device
        """
        self._begin_change()
        optimizer = self._optimizer
        if self.partitioned:  # small weights, which are kept whole, would be read as they were
            optimizer.checkpoint_event_prologue()
        for weight, value in zip(self.stepped_weights(), values, strict=True):
            weight.copy_(value)
        if self.partitioned:
            for number in range(len(values)):
                optimizer._reassign_or_swap_out_partitioned_parameters(number)
            optimizer.checkpoint_event_epilogue()  # puts these together again
        elif self.stage > 0:
            optimizer.update_lp_params()
        elif hasattr(optimizer, "fp32_groups"):
            for exact, rounded in zip(optimizer.fp32_groups, optimizer.fp16_groups, strict=True):
                for one, other in zip(exact, rounded, strict=True):
                    other.data.copy_(one.data)

    def _begin_change(self) -> None:
        """Before weights are overwritten."""
        if self._is_whole:
            raise ValueError("weights that are gathered to be read cannot be changed")
        self.changed, self.version = True, self.version + 1
        self._hook(None)

    def save(self, folder: Path) -> None:
        """Write weights and, unless every training begins with a new one, the optimiser.

        Called by every process.
        """
        weights = self.stepped_weights()
        if self.keeps_moments:
            states = self.moments()
            content = {
                "weights": [weight.detach() for weight in weights],
                "moments": [states.get(weight, {}) for weight in weights],
                "learning_rate": self.learning_rate,
            }
        else:
            content = {"weights": self.kept_weights()}
        path = self._file(folder)
        if self.stage > 0 or distributed.rank() == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
            torch.save(content, path)

    def _file(self, folder: Path) -> Path:
        """This process's part of the policy; processes that hold the same have one file."""
        rank = distributed.rank() if self.stage > 0 else 0
        return folder / self.model.name / f"policy_{rank}.pt"

    def load(self, folder: Path) -> None:
        """Load what `save` wrote; called by every process."""
        content = load_plain(self._file(folder))
        self.set_stepped_weights(content["weights"])
        if not self.keeps_moments:
            return
        self.set_learning_rate(content["learning_rate"])
        states = self.moments()
        for weight, moments in zip(self.stepped_weights(), content["moments"], strict=True):
            # where the device of a weight is the main memory, so is that of its moments
            states[weight] = {
                name: value.to(weight.device) if isinstance(value, Tensor) else value
                for name, value in moments.items()
            }
