"""The cases of the check: each is a list of settings, run in a process of its own.

A further way of running is a further line in `CASES`.
"""

from dataclasses import dataclass

from cory.gpu_check.machine import Machine

SMALL, GPT2, LARGE = "small", "gpt2", "large"
# seconds after which a case is ended
LIMITS = {SMALL: 150, GPT2: 150, LARGE: 360}
PROMPTS = {SMALL: 16, GPT2: 16, LARGE: 32}
RESPONSE_TOKENS = {SMALL: 16, GPT2: 16, LARGE: 32}
EACH = 2  # a minibatch is this many microbatches


@dataclass(frozen=True)
class Case:
    """Settings of one run, and the case on the CPU that its numbers are compared with."""

    name: str
    model: str  # SMALL, GPT2 or LARGE
    words: str  # settings of cory.train, apart by spaces
    reference: str | None  # None: nothing is compared, times and memory are measured
    is_reference: bool = False  # runs on the CPU in float32, whatever is checked
    all_devices: bool = False  # a process for every GPU

    def overrides(self, machine: Machine, path: str) -> list[str]:
        """All settings of the run; path: of its model."""
        device = "cpu" if self.is_reference else machine.device
        turns, tokens = PROMPTS[self.model], RESPONSE_TOKENS[self.model]
        processes = machine.processes if self.all_devices else 1
        return [
            "model=tiny",
            f"model.name={self.model}",
            f"model.path={path}",
            "reward=sentiment_tiny",
            f"hardware={'cpu' if device == 'cpu' else 'gpu1'}",
            f"hardware.processes={processes}",
            f"hardware.microbatch_size={turns // EACH // processes}",
            f"hardware.rollout_batch_size={turns}",
            "hardware.keep_whole_below=0",  # else ZeRO-3 splits nothing of a small model
            "task.max_prompt_tokens=8",
            # the quickstart's own would be bf16 on a CPU that has it, and no reference
            "model.compute_precision=${model.precision}",
            *("algorithm=ppo", *self.words.split()),
            f"algorithm.prompts_per_iteration={turns}",
            f"algorithm.minibatch_size={turns}",
            f"algorithm.sampling.min_response_tokens={tokens}",
            f"algorithm.sampling.max_response_tokens={tokens}",
            "algorithm.epochs=1",
            f"algorithm.learning_rate={self._learning_rate(machine)}",
            "algorithm.kl_estimator=full",
            "algorithm.value_coef=0.01",  # else the gradient's norm is that of the value head
            "evaluation.prompts=1",
        ]

    def _learning_rate(self, machine: Machine) -> float:
        """One that moves log-probabilities by far more than rounding does, and not out of range.

        Adam's first step moves each weight by it, whatever the gradient: the more weights, the
        further. That of the large model's copies is a usual one, nothing is compared there.
        """
        whole = self.model == LARGE and machine.device == "cuda"
        if LORA in self.words:
            return 3e-3 if whole else 1e-2
        return 1e-5 if self.model == LARGE else 1e-3

    @property
    def tells_speed(self) -> bool:
        """Whether the hours of the papers' runs are reckoned from its speed."""
        plain = not self.all_devices and "zero_stage" not in self.words
        return self.model == LARGE and LORA in self.words and plain and not self.is_reference

    def obstacle(self, machine: Machine) -> str | None:
        """Why this machine cannot run the case; None where it can."""
        gpu, words = machine.device == "cuda", self.words
        if self.is_reference:
            return None
        if self.all_devices and machine.processes < 2:
            return f"needs two or more devices, this machine has {machine.processes}"
        if ("fp16" in words or "tf32" in words or "8bit" in words) and not gpu:
            return "needs a GPU"
        if ("tf32" in words or "bf16" in words) and gpu and machine.capability < (8, 0):
            found = ".".join(map(str, machine.capability))
            return f"needs a GPU of compute capability 8.0 or more, this one has {found}"
        if "flash_attention_2" in words and not (gpu and machine.has_flash_attention):
            return "needs a GPU" if not gpu else "needs the package flash_attn"
        if ("nf4" in words or "8bit" in words) and not machine.has_bitsandbytes:
            return f"needs bitsandbytes with its library for {machine.device}"
        return None


COPIES = "small on the CPU"
ADAPTERS = "small with adapters on the CPU"
PACKED = "small in nf4 on the CPU"
PAIR = "small, two agents, on the CPU"
TRAINED = "gpt2 on the CPU"
WHOLE = "large on the CPU"

LORA = "model.sharing=adapters"
NF4 = f"{LORA} model.quantisation=nf4"
MIXED = "model.compute_precision=bf16"
TF32 = "model.compute_precision=tf32 reward.compute_precision=tf32"  # the judge, too
BF16 = "model.precision=bf16"
FP16 = "model.precision=fp16"
GRAPHS = "hardware.cuda_graphs=true"
EIGHT_BITS = "algorithm.optimizer=adamw_8bit"
OFFLOAD = "hardware.offload_optimizer=true"
OFFLOAD_ALL = f"hardware.zero_stage=3 {OFFLOAD} hardware.offload_parameters=true"


def zero(stage: int) -> str:
    """The setting of a ZeRO stage."""
    return f"hardware.zero_stage={stage}"


REFERENCES = (
    Case(COPIES, SMALL, "", None, is_reference=True),
    Case(ADAPTERS, SMALL, LORA, None, is_reference=True),
    Case(PACKED, SMALL, NF4, None, is_reference=True),
    Case(PAIR, SMALL, "algorithm=cory", None, is_reference=True),
    Case(TRAINED, GPT2, "", None, is_reference=True),
    Case(WHOLE, LARGE, LORA, None, is_reference=True),
)
CASES = (
    Case("fp32", SMALL, "", COPIES),
    Case("tf32", SMALL, TF32, COPIES),
    Case("mixed precision", SMALL, MIXED, COPIES),
    Case("bf16", SMALL, BF16, COPIES),
    Case("gpt2, fp32", GPT2, "", TRAINED),
    Case("gpt2, tf32", GPT2, TF32, TRAINED),
    Case("gpt2, mixed precision", GPT2, MIXED, TRAINED),
    Case("attention eager", SMALL, "model.attention=eager", COPIES),
    Case("attention sdpa", SMALL, "model.attention=sdpa", COPIES),
    Case("attention eager, mixed precision", SMALL, f"{MIXED} model.attention=eager", COPIES),
    Case("attention sdpa, mixed precision", SMALL, f"{MIXED} model.attention=sdpa", COPIES),
    Case("flash attention, bf16", SMALL, f"{BF16} model.attention=flash_attention_2", COPIES),
    Case("recorded passes", SMALL, GRAPHS, COPIES),
    Case("recorded passes, mixed precision", SMALL, f"{GRAPHS} {MIXED}", COPIES),
    Case("recorded passes, gpt2", GPT2, GRAPHS, TRAINED),
    Case("recorded passes, nf4, bf16", SMALL, f"{GRAPHS} {NF4} {BF16}", PACKED),
    Case("recorded passes, ZeRO 3, adapters", SMALL, f"{GRAPHS} {zero(3)} {LORA}", ADAPTERS),
    Case("adapters", SMALL, LORA, ADAPTERS),
    Case("adapters, routed", SMALL, f"{LORA} hardware.routed_reference=true", ADAPTERS),
    Case("adapters, mixed precision", SMALL, f"{LORA} {MIXED}", ADAPTERS),
    Case("nf4", SMALL, NF4, PACKED),
    Case("nf4, bf16", SMALL, f"{NF4} {BF16}", PACKED),
    Case("gradient checkpointing", SMALL, "hardware.gradient_checkpointing=true", COPIES),
    Case("two agents, mixed precision", SMALL, f"algorithm=cory {MIXED}", PAIR),
    Case("ZeRO 1", SMALL, zero(1), COPIES),
    Case("ZeRO 2", SMALL, zero(2), COPIES),
    Case("ZeRO 3", SMALL, zero(3), COPIES),
    Case("ZeRO 2, mixed precision", SMALL, f"{zero(2)} {MIXED}", COPIES),
    Case("ZeRO 3, mixed precision", SMALL, f"{zero(3)} {MIXED}", COPIES),
    Case("ZeRO 2, bf16", SMALL, f"{zero(2)} {BF16}", COPIES),
    Case("ZeRO 3, bf16", SMALL, f"{zero(3)} {BF16}", COPIES),
    Case("ZeRO 1, fp16", SMALL, f"{zero(1)} {FP16}", COPIES),
    Case("ZeRO 2, fp16", SMALL, f"{zero(2)} {FP16}", COPIES),
    Case("ZeRO 3, adapters", SMALL, f"{zero(3)} {LORA}", ADAPTERS),
    Case("ZeRO 2, optimiser offloaded", SMALL, f"{zero(2)} {OFFLOAD}", COPIES),
    Case("ZeRO 3, parameters offloaded", SMALL, OFFLOAD_ALL, COPIES),
    Case("8-bit AdamW", SMALL, EIGHT_BITS, None),
    Case("8-bit AdamW, ZeRO 2", SMALL, f"{EIGHT_BITS} {zero(2)}", None),
    Case("all devices", SMALL, "", COPIES, all_devices=True),
    Case("all devices, ZeRO 2", SMALL, zero(2), COPIES, all_devices=True),
    Case("all devices, ZeRO 3", SMALL, zero(3), COPIES, all_devices=True),
    Case("all devices, ZeRO 3, bf16", SMALL, f"{zero(3)} {BF16}", COPIES, all_devices=True),
    Case("large, mixed precision", LARGE, f"{LORA} {MIXED}", WHOLE),
    Case("large, bf16", LARGE, f"{LORA} {BF16}", WHOLE),
    Case("large, recorded passes, bf16", LARGE, f"{GRAPHS} {LORA} {BF16}", WHOLE),
    Case("large, fp32", LARGE, LORA, WHOLE),
    Case("large, tf32", LARGE, f"{LORA} {TF32}", WHOLE),
    Case("large, nf4, bf16", LARGE, f"{NF4} {BF16}", None),
    Case("large, flash attention, bf16", LARGE,
         f"{LORA} {BF16} model.attention=flash_attention_2", WHOLE),
    Case("large, copies, mixed precision", LARGE, MIXED, None),
    Case("large, copies, bf16", LARGE, BF16, None),
    Case("large, ZeRO 3, parameters offloaded, bf16", LARGE, f"{OFFLOAD_ALL} {BF16}", None),
    Case("large, all devices, ZeRO 3, bf16", LARGE, f"{zero(3)} {BF16}", None, all_devices=True),
)  # fmt: skip


def in_order() -> list[Case]:
    """Every case after its reference, the small models first."""
    order: list[Case] = []
    references = {case.name: case for case in REFERENCES}
    for case in CASES:
        needed = references.get(case.reference or "")
        order += [one for one in (needed, case) if one is not None and one not in order]
    return order
