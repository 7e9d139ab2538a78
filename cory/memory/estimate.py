"""Estimates the memory of each process of a run, by phase, from its settings and a shape.

Sizes of weights are exact. The buffers of DeepSpeed were read from its code (0.19) and measured:
docs/memory.md compares estimates with measurements. Activations follow a rule of thumb.
"""

from dataclasses import dataclass, replace

import torch

from cory.config import ADAMW_8BIT, Config, HardwareConfig, ModelConfig
from cory.functional.logprobs import SLAB_BYTES, TENSORS_AT_ONCE
from cory.memory.architecture import (
    BYTES,
    Shape,
    adapter_tensors,
    base_bytes,
    saved_by_casting,
)
from cory.memory.workload import Work, work_of
from cory.models.precision import DTYPES, attention_for

# Phases in which memory is held; ALWAYS adds to each of them but LOADING.
ALWAYS = "always"
LOADING = "loading"
SAMPLING = "sampling"
SCORING = "scoring"
FORWARD = "forward pass"
BACKWARD = "backward pass"
STEP = "optimiser step"
PHASES = (LOADING, SAMPLING, SCORING, FORWARD, BACKWARD, STEP)

# What an engine holds and a checkpoint keeps; disk.py finds these rows by their names.
WEIGHTS, WEIGHTS_SHARE = "weights that train", "weights that train, a share"
MASTER, MOMENTS = "float32 copy of the weights", "Adam's two moments"
STORED = "weights of all policies"  # that share an engine

# Elements of DeepSpeed's buffers: of gradients at stage 0 (fixed in its engine) and at stages 1 to
# 3 (engine.py), of weights prefetched at stage 3
ALLREDUCE_ELEMENTS = 500_000_000
REDUCE_ELEMENTS = 50_000_000
PREFETCH_ELEMENTS = 50_000_000
LIVE_ELEMENTS = 1_000_000_000  # of weights, gathered at once while training at stage 3

# bitsandbytes: moments of fewer elements stay in float32; others share a scale in each block
SMALLEST_8BIT = 4096
BLOCK_8BIT = 256


@dataclass(frozen=True)
class Usage:
    """Memory that a process uses in a phase."""

    what: str
    bytes: int
    when: str  # ALWAYS or one of PHASES
    offloaded: bool = False  # in main memory beside a GPU


@dataclass(frozen=True)
class Engines:
    """The engines of a process: what DeepSpeed and AdamW train."""

    tensors: list[int]  # elements of each weight that an agent trains
    agents: int
    stored: int | None  # bytes of a weight in main memory, where agents share one engine
    frozen: int  # elements that do not train and are split with them at stage 3
    each: int  # bytes of a weight and of its gradient
    master: bool  # float32 weights are kept beside those of the passes
    accumulation: int
    hardware: HardwareConfig
    eight_bits: bool = False  # AdamW's moments, by bitsandbytes

    @property
    def count(self) -> int:
        """Engines: one for each agent, or one for all."""
        return self.agents if self.stored is None else min(1, self.agents)

    @property
    def whole(self) -> int:
        """Elements that an agent trains."""
        return sum(self.tensors)

    @property
    def share(self) -> int:
        """Elements of this process's share, where a stage splits them."""
        return -(-self.whole // self.hardware.world)

    @property
    def owned(self) -> int:
        """Elements that this process's AdamW updates."""
        return self.whole if self.hardware.zero_stage == 0 else self.share

    @property
    def moments(self) -> int:
        """Bytes of the moments that this process keeps of an agent's weights."""
        if not self.eight_bits:
            return 8 * self.owned
        parts = self.tensors if self.hardware.zero_stage == 0 else [self.share]
        return sum(
            8 * part if part < SMALLEST_8BIT else 2 * (part + 4 * -(-part // BLOCK_8BIT))
            for part in parts
        )

    @property
    def on_gpu(self) -> bool:
        return self.hardware.device == "cuda"

    @property
    def away(self) -> bool:
        """AdamW's state is offloaded from the GPU to main memory."""
        return self.on_gpu and self.hardware.offload_optimizer


def held_rows(engines: Engines) -> list[Usage]:
    """Memory that all engines hold all the time."""
    agents, each, hardware = engines.count, engines.each, engines.hardware
    share, owned, away = engines.share, engines.owned, engines.away
    found = []
    if hardware.zero_stage < 3:
        found.append(Usage(WEIGHTS, agents * each * engines.whole, ALWAYS))
    else:
        apart = engines.on_gpu and hardware.offload_parameters
        found.append(Usage(WEIGHTS_SHARE, agents * each * share, ALWAYS, apart))
        if hardware.world > 1:
            small = sum(t for t in engines.tensors if t < hardware.keep_whole_below)
            found.append(Usage("weights too small to split", agents * each * small, ALWAYS))
        found.append(Usage("gradients, a share", agents * each * share, ALWAYS, away))
    if engines.master:
        found.append(Usage(MASTER, agents * 4 * owned, ALWAYS, away))
    found.append(Usage(MOMENTS, agents * engines.moments, ALWAYS, away))
    if away:
        found.append(Usage("float32 gradients", agents * 4 * share, ALWAYS, True))
    if engines.stored is not None:
        size = engines.agents * engines.stored * owned
        found.append(Usage(STORED, size, ALWAYS, engines.on_gpu))
    return found


def whole_gradient_rows(engines: Engines) -> list[Usage]:
    """Stages 0 and 1: gradients of the agent that is updated."""
    each, whole, share = engines.each, engines.whole, engines.share
    found = [Usage("gradients", each * whole, BACKWARD)]
    if engines.accumulation > 1:
        found.append(Usage("gradients of earlier microbatches", each * whole, FORWARD))
    if engines.hardware.zero_stage == 0:
        exchanged = each * min(whole, ALLREDUCE_ELEMENTS)
        return [*found, Usage("copy of the gradients to exchange", exchanged, BACKWARD)]
    if engines.on_gpu:
        buffer = REDUCE_ELEMENTS + share
    else:  # gradients move into the buffer, so their memory is free again
        buffer = max(0, min(REDUCE_ELEMENTS, whole) + share - whole)
    return [*found, Usage("buffer and share of gradients", each * buffer, BACKWARD)]


def split_gradient_rows(engines: Engines) -> list[Usage]:
    """Stage 2: gradients of the agent that is updated."""
    each, share = engines.each, engines.share
    several = engines.accumulation > 1
    buffer = REDUCE_ELEMENTS if engines.on_gpu else min(REDUCE_ELEMENTS, engines.whole)
    earlier = each * share if several else 0
    return [
        Usage("gradients of earlier microbatches, a share", earlier, FORWARD),
        Usage("gradients, a share", (2 if several else 1) * each * share, BACKWARD),
        Usage("buffer of gradients", each * buffer, BACKWARD),
    ]


def gathering_rows(engines: Engines) -> list[Usage]:
    """Stage 3: the buffer of gradients, and the weights gathered for a pass."""
    each, elements = engines.each, engines.whole + engines.frozen
    # allocated whole with the engine; of main memory only used pages count
    buffer = REDUCE_ELEMENTS if engines.on_gpu else min(REDUCE_ELEMENTS, engines.whole)
    found = [Usage("buffer of gradients", engines.count * each * buffer, ALWAYS)]
    if engines.hardware.world > 1:
        # besides the weights in use, a prefetch buffer and the next one under way
        training = min(elements, LIVE_ELEMENTS) + min(elements, 2 * PREFETCH_ELEMENTS)
        sizes = {SAMPLING: elements, SCORING: elements, FORWARD: training, BACKWARD: training}
        found += [Usage("weights put together", each * size, when) for when, size in sizes.items()]
    return found


def step_rows(engines: Engines) -> list[Usage]:
    """The optimiser step: gradients in float32 and AdamW's intermediate results."""
    stage, owned, away = engines.hardware.zero_stage, engines.owned, engines.away
    found = []
    if stage == 0:
        found.append(Usage("gradients", engines.each * engines.whole, STEP))
    if engines.master and not away:
        found.append(Usage("gradients in float32", 4 * owned, STEP))
    if engines.eight_bits:  # one kernel, which reads and writes moments block by block
        return found
    if engines.on_gpu and not away:  # the square roots of all moments at once
        between = 4 * owned
    else:  # two at a time, tensor by tensor; splitting stages make one tensor of all
        between = 8 * (max(engines.tensors) if stage == 0 else engines.share)
    return [*found, Usage("AdamW's intermediate results", between, STEP, away)]


def engine_rows(engines: Engines) -> list[Usage]:
    """Memory of all engines, and of the passes and the step of one that is updated."""
    passes = (whole_gradient_rows, whole_gradient_rows, split_gradient_rows, gathering_rows)
    in_passes = passes[engines.hardware.zero_stage]
    return [*held_rows(engines), *in_passes(engines), *step_rows(engines)]


def pass_rows(
    shape: Shape, model: ModelConfig, hardware: HardwareConfig, work: Work, targets: list[str]
) -> list[Usage]:
    """Memory of forward and backward passes: caches, activations, logits."""
    each = BYTES[model.precision]
    half = model.precision != "fp32"
    layer = 3 * shape.widest + 4 * shape.width  # activations of a layer without a backward pass
    scored = work.rows * work.tokens * (2 if hardware.routed_reference else 1)
    sampled = max(work.sampled * work.tokens, work.held_out * work.held_out_tokens)
    drawn = max(work.sampled, work.held_out)
    # where rows are dropped, a layer's old keys are held beside the new for a moment
    stored = each if model.quantisation != "none" else BYTES[model.compute_precision]
    cache = stored * sampled * (shape.cache + shape.cache // (2 * shape.layers))
    # logits, log-probabilities, probabilities, their sums in float64, and the tokens seen
    drawing = drawn * shape.vocabulary * (each * half + 4 + 4 + 4 + 8 + 1)
    slab = min(work.rows * work.response, SLAB_BYTES // (4 * TENSORS_AT_ONCE * shape.vocabulary))
    # two logits, two log-probabilities, a probability, a product of two
    slabs = slab * shape.vocabulary * (2 * each + 4 * 4)
    training = min(work.micro * work.response, SLAB_BYTES // (4 * shape.vocabulary))
    # log-probabilities and two gradients of them, besides the logits where they are halves
    passes = training * shape.vocabulary * (3 * 4 + each * half)
    tokens = work.micro * work.tokens
    kept = shape.saved(targets)
    if hardware.gradient_checkpointing:  # the input of every layer, and one layer recomputed
        kept = shape.layers * shape.width + kept // shape.layers
    found = [
        Usage("KV cache", cache, SAMPLING),
        Usage("logits of one token per row", drawing, SAMPLING),
        Usage("activations of one layer", each * scored * layer, SCORING),
        Usage("slabs of logits, policy and reference", slabs, SCORING),
        Usage("activations", each * tokens * kept, FORWARD),
        Usage("slab of logits", passes, FORWARD),
    ]
    if model.quantisation != "none":
        widest = max(wide * out for _, wide, out in shape.linear)
        unpacked = BYTES[model.compute_precision] * widest
        found += [
            Usage("one layer unpacked from 4 bits", unpacked, when)
            for when in (SAMPLING, SCORING, FORWARD, BACKWARD)
        ]
    elif BYTES[model.compute_precision] != each:
        # torch keeps the casts of trained weights for a pass, and those of all for its backward
        casts = BYTES[model.compute_precision] * sum(wide * out for _, wide, out in shape.linear)
        phases: tuple[str, ...] = ()
        if model.sharing == "copies":
            phases = (SAMPLING, SCORING, FORWARD, BACKWARD)
        elif hardware.zero_stage == 3:  # else a frozen base is kept as it is cast
            phases = (FORWARD, BACKWARD)
        found += [Usage("weights cast for products", casts, when) for when in phases]
    products = DTYPES[model.compute_precision]
    if attention_for(model.attention, torch.device(hardware.device), products) == "eager":
        # the softmax, and what it is rounded to for the product with the values
        layers = 1 if hardware.gradient_checkpointing else shape.layers
        pairs = work.micro * shape.heads * work.tokens**2 * layers
        found.append(Usage("attention weights", (each + products.itemsize) * pairs, FORWARD))
    return found


def estimate_rows(
    config: Config, model: ModelConfig, agents: int, shape: Shape, targets: list[str]
) -> list[Usage]:
    """All memory that a process of this run uses for one model.

    agents: policies that start from it
    targets: names of the layers that get an adapter; none with sharing=copies
    """
    hardware, work = config.hardware, work_of(config, shape)
    base = base_bytes(shape, model)
    head = [shape.width, 1] if config.algorithm.has_value_head() else []  # weight and bias
    split = hardware.zero_stage == 3
    stored = base - saved_by_casting(shape, model)  # once all copies are made
    # on the CPU weights are views of the checkpoint's file; where they are converted or quantised,
    # the file is in memory, too, until it is closed
    same = model.quantisation == "none" and shape.stored == BYTES[model.precision]
    file = 0 if same or hardware.device == "cuda" else shape.stored * shape.parameters
    if model.sharing == "copies":
        tensors, frozen = [*shape.tensors, *head], 0
        kept = stored if config.algorithm.reads_reference() else 0
        found = [Usage("reference", kept, ALWAYS), Usage("reference", base, LOADING)]
        if stored < base and getattr(config.algorithm, "start", None) == "base":  # as loaded
            again = BYTES[model.precision] * sum(wide * out for _, wide, out in shape.linear)
            found.append(Usage("weights that each iteration starts from", again, ALWAYS))
    else:
        tensors = [*adapter_tensors(shape, targets, model.adapter.rank), *head]
        frozen = shape.parameters
        bases = 1 if model.sharing == "adapters" else agents
        share = bases * base // hardware.world if split else bases * stored
        apart = hardware.device == "cuda" and hardware.offload_parameters
        name = "base of all agents" if bases == 1 else "bases"
        found = [
            Usage(f"{name}, frozen", share, ALWAYS, apart),
            Usage(name, bases * base, LOADING),
            Usage("its share, before the whole is let go", share if split else 0, LOADING),
            Usage("the checkpoint's file", file, LOADING),
        ]
    engines = Engines(
        tensors=tensors,
        agents=agents,
        stored=kept_bytes(config, model) if config.algorithm.one_engine(model.sharing) else None,
        frozen=frozen,
        each=BYTES[model.precision],
        master=hardware.zero_stage > 0 or model.precision != "fp32",
        accumulation=work.accumulation,
        hardware=hardware,
        eight_bits=config.algorithm.optimizer == ADAMW_8BIT,
    )
    if model.sharing == "copies":
        # each is in an engine, which may split it, before the next copy is made
        before = total(engine_rows(replace(engines, agents=agents - 1)), ALWAYS)
        copies = before + engines.each * engines.whole
        found.append(Usage("copies so far, or the checkpoint's file", max(copies, file), LOADING))
    found += engine_rows(engines)
    found += pass_rows(shape, model, hardware, work, targets)
    return [row for row in found if row.bytes > 0]


def kept_bytes(config: Config, model: ModelConfig) -> int:
    """Bytes of a weight between two trainings that each begin with a new optimiser."""
    return 4 if config.algorithm.trains_on() else BYTES[model.precision]


def total(rows: list[Usage], when: str, offloaded: bool = False) -> int:
    """Bytes held in a phase, on the device or beside it."""
    phases = {when} if when == LOADING else {when, ALWAYS}
    return sum(r.bytes for r in rows if r.when in phases and r.offloaded == offloaded)


def peak(rows: list[Usage], offloaded: bool = False) -> tuple[str, int]:
    """The phase that uses most memory, and its bytes."""
    sizes = {when: total(rows, when, offloaded) for when in PHASES}
    when = max(sizes, key=lambda phase: sizes[phase])
    return when, sizes[when]
