"""How much memory a run will need in each process, known before anything heavy is loaded.

Sizes of weights are exact: they come from the architecture, built without weights. What
DeepSpeed keeps, and what it makes in passing, was read from its code (0.19) and measured:
docs/memory.md holds estimates beside what runs used. Activations follow a rule of thumb.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from string import Formatter

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from cory.config import Config, ConfigError, HardwareConfig, ModelConfig, batch_plan, require
from cory.functional.logprobs import SLAB_BYTES, TENSORS_AT_ONCE
from cory.pretrained import classifier_elements, skeleton

GIB = 2**30
BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
WARN_ABOVE = 0.9  # of what there is

# When something is held. Loading stands for itself; to the others comes what is held always.
ALWAYS = "always"
LOADING = "loading"
SAMPLING = "sampling"
SCORING = "scoring"
FORWARD = "forward pass"
BACKWARD = "backward pass"
STEP = "optimiser step"
PHASES = (LOADING, SAMPLING, SCORING, FORWARD, BACKWARD, STEP)

# Elements that DeepSpeed puts into one buffer: of gradients at stage 0 (fixed in its engine), of
# gradients at stages 1 to 3 (engine.py), of weights put together ahead of use at stage 3
ALLREDUCE_ELEMENTS = 500_000_000
REDUCE_ELEMENTS = 50_000_000
PREFETCH_ELEMENTS = 50_000_000
LIVE_ELEMENTS = 1_000_000_000  # of weights, put together at once while training at stage 3

# An activation that is not one operation saves so many tensors of the MLP's width for the way back
UNFUSED = {"gelu_new": 3}
CHARACTERS_PER_TOKEN = 3  # of a template's own words; few, so that tokens are rather too many
NF4_BLOCK, NF4_SCALES = 64, 256  # weights that share a scale; scales that share a scale of theirs


@dataclass(frozen=True)
class Row:
    """Something that takes memory."""

    what: str
    bytes: int
    when: str  # ALWAYS or one of PHASES
    offloaded: bool = False  # in main memory beside a GPU


@dataclass(frozen=True)
class Shape:
    """What an architecture says about memory; elements, not bytes."""

    tensors: tuple[int, ...]  # elements of each weight; weights used twice count once
    linear: tuple[tuple[str, int, int], ...]  # name, width in, width out; without the output head
    width: int  # of the hidden states
    layers: int
    cache: int  # keys and values of one token, in all layers
    vocabulary: int
    context: int  # most tokens at once
    activation: str
    stored: int  # bytes of an element in the checkpoint

    @property
    def parameters(self) -> int:
        return sum(self.tensors)

    def saved(self, targets: list[str]) -> int:
        """Elements per token that all layers save for the way back.

        What comes out of every linear layer, what goes into those that train, two norms, and the
        MLP's activation.

        targets: names of the layers that train, through an adapter; none: all of them
        """
        passing = sum(
            out + (wide if not targets or last_part(name) in targets else 0)
            for name, wide, out in self.linear
        )
        unfused = UNFUSED.get(self.activation, 0) * self.widest
        return passing + self.layers * (2 * self.width + unfused)

    @property
    def widest(self) -> int:
        """The width inside an MLP."""
        return max(out for _, _, out in self.linear)


@dataclass(frozen=True)
class Work:
    """How much passes through the models of one process at once; tokens and rows."""

    rows: int  # turns per generation and scoring pass
    tokens: int  # context and response of the longest turn
    held_out: int  # rows of an evaluation's generation pass
    bare: int  # query and response, which is all that an evaluation has
    response: int  # tokens of a response
    micro: int  # turns per forward and backward pass
    accumulation: int


def shape_of(lm: PreTrainedModel) -> Shape:
    """The shape of a language model; it need not have weights."""
    config = lm.config
    head = lm.get_output_embeddings()
    layers = int(config.num_hidden_layers)
    heads = int(config.num_attention_heads)
    per_head = getattr(config, "head_dim", None) or int(config.hidden_size) // heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    return Shape(
        tensors=tuple(p.numel() for p in lm.parameters()),
        linear=tuple(
            (name, *widths(module))
            for name, module in lm.named_modules()
            if isinstance(module, nn.Linear | Conv1D) and module is not head
        ),
        width=head.weight.shape[1],
        layers=layers,
        cache=2 * layers * kv_heads * per_head,
        vocabulary=int(config.vocab_size),
        context=int(config.max_position_embeddings),
        activation=str(
            getattr(config, "activation_function", None) or getattr(config, "hidden_act", "")
        ),
        stored=(config.dtype or torch.float32).itemsize,
    )


def last_part(name: str) -> str:
    """`c_attn` of `transformer.h.0.attn.c_attn`."""
    return name.rpartition(".")[2]


def widths(module: nn.Module) -> tuple[int, int]:
    """Width in and out of a linear layer."""
    one, two = module.weight.shape  # type: ignore[union-attr, misc]  # nn.Module knows no weight
    return (one, two) if isinstance(module, Conv1D) else (two, one)


def base_bytes(shape: Shape, model: ModelConfig) -> int:
    """A frozen copy of the language model: in its precision, or its linear layers in 4 bits."""
    each = BYTES[model.precision]
    if model.quantisation == "none":
        return each * shape.parameters
    total = each * shape.parameters
    for _, wide, out in shape.linear:
        scales = -(-wide * out // NF4_BLOCK)
        total += wide * out // 2 - each * wide * out
        # doubly quantised: a byte per scale, and for each 256 of them a float of their own
        total += scales + 4 * -(-scales // NF4_SCALES) if model.double_quantisation else 4 * scales
    return total


def adapter_tensors(shape: Shape, targets: list[str], rank: int) -> list[int]:
    """Elements of each matrix of a LoRA adapter: (rank, in) and (out, rank) per layer."""
    return [
        rank * side
        for name, wide, out in shape.linear
        if last_part(name) in targets
        for side in (wide, out)
    ]


def work_of(config: Config, shape: Shape) -> Work:
    """What one process has at hand at once."""
    algorithm, hardware = config.algorithm, config.hardware
    response = algorithm.sampling.max_response_tokens
    plan = batch_plan(
        algorithm.prompts_per_iteration,
        algorithm.minibatch_size,
        hardware.microbatch_size,
        hardware.world,
    )

    def rows(prompts: int) -> int:
        return min(hardware.rollout_batch_size, -(-prompts // hardware.world))

    return Work(
        rows=rows(algorithm.prompts_per_iteration),
        tokens=min(longest_context(config) + response, shape.context),
        held_out=rows(config.evaluation_prompts),
        bare=min(config.task.max_prompt_tokens + response, shape.context),
        response=response,
        micro=plan.microbatch,
        accumulation=plan.accumulation,
    )


def longest_context(config: Config) -> int:
    """Tokens of the longest prompt: the last observer's, which holds all answers before it."""
    task, algorithm = config.task, config.algorithm
    query = int(task.max_prompt_tokens)
    earlier = agents_of(config) - 1
    if earlier == 0 or not algorithm.knowledge_transfer:
        return query
    quoted = any(field == "query" for _, field, _, _ in Formatter().parse(task.answer_template))
    answer = int(algorithm.sampling.max_response_tokens) + (query if quoted else 0)
    words = task.observer_template + earlier * task.answer_template
    words += (earlier - 1) * task.answer_separator
    own = sum(len(text) for text, _, _, _ in Formatter().parse(words))
    return query + earlier * answer + own // CHARACTERS_PER_TOKEN


def agents_of(config: Config) -> int:
    return int(getattr(config.algorithm, "agents", 1))


def engine_rows(
    tensors: list[int],
    agents: int,
    frozen: int,
    precision: str,
    hardware: HardwareConfig,
    accumulation: int,
) -> list[Row]:
    """What DeepSpeed and AdamW hold for `agents` engines, and make while one of them updates.

    tensors: elements of each weight that an agent trains
    frozen: elements that do not train and are split with them at stage 3
    """
    each, stage, world = BYTES[precision], hardware.zero_stage, hardware.world
    all_, widest = sum(tensors), max(tensors)
    part = -(-all_ // world)  # of what a stage splits
    owned = all_ if stage == 0 else part
    on_gpu = hardware.device == "cuda"
    away = on_gpu and hardware.offload_optimizer
    rows = []

    def add(what: str, size: float, when: str, offloaded: bool = False) -> None:
        if size > 0:
            rows.append(Row(what, int(size), when, offloaded))

    # held by every agent
    if stage < 3:
        add("weights that train", agents * each * all_, ALWAYS)
    else:
        apart = on_gpu and hardware.offload_parameters
        add("weights that train, a share", agents * each * part, ALWAYS, apart)
        if world > 1:
            small = sum(t for t in tensors if t < hardware.keep_whole_below)
            add("weights too small to split", agents * each * small, ALWAYS)
        add("gradients, a share", agents * each * part, ALWAYS, away)
    if stage > 0 or precision != "fp32":
        add("float32 copy of the weights", agents * 4 * owned, ALWAYS, away)
    add("Adam's two moments", agents * 8 * owned, ALWAYS, away)
    if away:
        add("float32 gradients", agents * 4 * part, ALWAYS, True)

    # made in turn, by the agent that updates
    bucket = min(REDUCE_ELEMENTS, all_)
    if stage == 3:
        if on_gpu:  # taken whole when an engine is made; in main memory only what is used counts
            add("buffer of gradients", agents * each * REDUCE_ELEMENTS, ALWAYS)
        else:
            add("buffer of gradients", agents * each * bucket, ALWAYS)
        if world > 1:
            whole = each * (all_ + frozen)
            live = each * min(all_ + frozen, LIVE_ELEMENTS)
            # a buffer that layers are cut from, and the next one on its way
            prefetch = each * min(all_ + frozen, 2 * PREFETCH_ELEMENTS)
            add("weights put together", live + prefetch, FORWARD)
            add("weights put together", live + prefetch, BACKWARD)
            for when in (SAMPLING, SCORING):
                add("weights put together", whole, when)
    elif stage == 2:
        kept = 2 if accumulation > 1 else 1
        if accumulation > 1:
            add("gradients of earlier microbatches, a share", each * part, FORWARD)
        add("gradients, a share", kept * each * part, BACKWARD)
        add("buffer of gradients", each * (REDUCE_ELEMENTS if on_gpu else bucket), BACKWARD)
    else:
        if accumulation > 1:
            add("gradients of earlier microbatches", each * all_, FORWARD)
        add("gradients", each * all_, BACKWARD)
        if stage == 0:
            add("copy of the gradients to exchange", each * min(all_, ALLREDUCE_ELEMENTS), BACKWARD)
        elif on_gpu:
            add("buffer and share of gradients", each * (REDUCE_ELEMENTS + part), BACKWARD)
        else:  # gradients move into the buffer, so their memory is free again
            add("buffer and share of gradients", each * max(0, bucket + part - all_), BACKWARD)

    # the step: gradients in float32, and AdamW's own intermediate results
    if stage == 0:
        add("gradients", each * all_, STEP)
    if (stage > 0 or precision != "fp32") and not away:
        add("gradients in float32", 4 * owned, STEP)
    if on_gpu and not away:  # the square roots of all moments at once
        add("AdamW's intermediate results", 4 * owned, STEP)
    else:  # two at a time, tensor by tensor; splitting stages make one tensor of all
        add("AdamW's intermediate results", 8 * (widest if stage == 0 else part), STEP, away)
    return rows


def pass_rows(
    shape: Shape, model: ModelConfig, hardware: HardwareConfig, work: Work, targets: list[str]
) -> list[Row]:
    """What passes through the models: caches, activations, logits."""
    each = BYTES[model.precision]
    half = model.precision != "fp32"
    layer = 3 * shape.widest + 4 * shape.width  # what is at hand at once without a way back
    scored = work.rows * work.tokens * (2 if hardware.routed_reference else 1)
    sampled = max(work.rows * work.tokens, work.held_out * work.bare)
    drawn = max(work.rows, work.held_out)
    # the cache grows by one token at a time: a layer's old keys lie beside the new for a moment
    cache = each * sampled * (shape.cache + shape.cache // (2 * shape.layers))
    # logits, log-probabilities, two passes in float64 to draw from them, and the tokens seen
    drawing = drawn * shape.vocabulary * (each * half + 4 + 4 + 16 + 1)
    slab = min(work.rows * work.response, SLAB_BYTES // (4 * TENSORS_AT_ONCE * shape.vocabulary))
    # two logits, two log-probabilities, a probability, a product of two
    slabs = slab * shape.vocabulary * (2 * each + 4 * 4)
    training = min(work.micro * work.response, SLAB_BYTES // (4 * shape.vocabulary))
    # log-probabilities and two gradients of them, besides the logits where they are halves
    passes = training * shape.vocabulary * (3 * 4 + each * half)
    tokens = work.micro * work.tokens
    kept = shape.saved(targets)
    if hardware.gradient_checkpointing:  # what goes into every layer, and one layer made again
        kept = shape.layers * shape.width + kept // shape.layers
    found = [
        Row("KV cache", cache, SAMPLING),
        Row("logits of one token per row", drawing, SAMPLING),
        Row("activations of one layer", each * scored * layer, SCORING),
        Row("slabs of logits, policy and reference", slabs, SCORING),
        Row("activations", each * tokens * kept, FORWARD),
        Row("slab of logits", passes, FORWARD),
    ]
    if model.quantisation != "none":
        widest = max(wide * out for _, wide, out in shape.linear)
        unpacked = BYTES[model.compute_precision] * widest
        found += [
            Row("one layer unpacked from 4 bits", unpacked, when)
            for when in (SAMPLING, SCORING, FORWARD, BACKWARD)
        ]
    return found


def estimate(config: Config, shape: Shape, targets: list[str], judge: int) -> list[Row]:
    """Everything that a process of this run will hold.

    targets: names of the layers that get an adapter; none with sharing=copies
    judge: elements of the reward's own model
    """
    model, hardware = config.model, config.hardware
    agents, work = agents_of(config), work_of(config, shape)
    base = base_bytes(shape, model)
    head = [shape.width, 1]  # the value head
    split = hardware.zero_stage == 3
    # on the CPU weights are views of the checkpoint's file; where they are converted or packed,
    # the file is in memory beside them until it is closed
    same = model.quantisation == "none" and shape.stored == BYTES[model.precision]
    file = 0 if same or hardware.device == "cuda" else shape.stored * shape.parameters
    if model.sharing == "copies":
        tensors, frozen = [*shape.tensors, *head], 0
        copies = agents * 4 * sum(tensors)
        found = [
            Row("reference", base, ALWAYS),
            Row("reference", base, LOADING),
            Row("float32 copies, or the checkpoint's file", max(copies, file), LOADING),
        ]
    else:
        tensors = [*adapter_tensors(shape, targets, model.adapter.rank), *head]
        frozen = shape.parameters
        bases = 1 if model.sharing == "adapters" else agents
        share = bases * base // (hardware.world if split else 1)
        apart = hardware.device == "cuda" and hardware.offload_parameters
        name = "base of all agents" if bases == 1 else "bases"
        found = [
            Row(f"{name}, frozen", share, ALWAYS, apart),
            Row(name, bases * base, LOADING),
            Row("its share, before the whole is let go", share if split else 0, LOADING),
            Row("the checkpoint's file", file, LOADING),
        ]
    found.append(Row("reward model", 4 * judge, ALWAYS))
    found += engine_rows(tensors, agents, frozen, model.precision, hardware, work.accumulation)
    found += pass_rows(shape, model, hardware, work, targets)
    return [row for row in found if row.bytes > 0]


def total(rows: list[Row], when: str, offloaded: bool = False) -> int:
    """Bytes held in a phase, on the device or beside it."""
    phases = {when} if when == LOADING else {when, ALWAYS}
    return sum(r.bytes for r in rows if r.when in phases and r.offloaded == offloaded)


def peak(rows: list[Row], offloaded: bool = False) -> tuple[str, int]:
    """The phase that holds most, and how many bytes."""
    sizes = {when: total(rows, when, offloaded) for when in PHASES}
    when = max(sizes, key=lambda phase: sizes[phase])
    return when, sizes[when]


def main_memory() -> int:
    """Bytes of main memory that this machine, or the container it is, has."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        path = Path("/sys/fs/cgroup") / name
        if path.is_file() and (text := path.read_text(encoding="utf-8").strip()).isdigit():
            limits.append(int(text))
    return min(limits)


def device_memory(hardware: HardwareConfig) -> int | None:
    """Bytes for one process of the run; None where it asks for a GPU and this machine has none."""
    if hardware.device == "cpu":
        return main_memory() // hardware.processes
    if not torch.cuda.is_available():
        return None
    return int(torch.cuda.get_device_properties(0).total_memory)


def rows_of(config: Config) -> tuple[list[Row], list[str]]:
    """The rows of a run, and notes on what they leave out."""
    lm = skeleton(config.model.path, "model.path", config.model.architecture)
    targets: list[str] = []
    if config.model.sharing != "copies":
        # it tells of an optional package that nothing here needs
        logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
        from cory.adapters import adapted_layers  # noqa: PLC0415  five seconds, and copies need none

        targets = adapted_layers(lm, config.model.adapter.targets)
    notes = ["not counted: Python and its libraries (docs/memory.md), and a GPU's own context"]
    judge: int | None = 0
    if hasattr(config.reward, "path"):
        judge = classifier_elements(config.reward.path, "reward.path")
        if judge is None:
            notes.append(f"not counted: reward.path={config.reward.path} is not on this machine")
    return estimate(config, shape_of(lm), targets, judge or 0), notes


def table(config: Config, rows: list[Row], notes: list[str]) -> str:
    """The rows as text, with their sums and what the device has."""
    model, hardware, agents = config.model, config.hardware, agents_of(config)
    packed = "" if model.quantisation == "none" else f", base in {model.quantisation}"
    lines = [
        f"memory of one process, GiB: model={model.name} ({model.precision}{packed}), "
        f"{agents} agent{'s' if agents > 1 else ''} as {model.sharing}, hardware={hardware.name} "
        f"({hardware.world} process{'es' if hardware.world > 1 else ''}, "
        f"zero_stage={hardware.zero_stage})"
    ]

    def line(what: str, size: int, when: str) -> None:
        lines.append(f"  {what:<44}{size / GIB:>9.2f}  {when}")

    for phase in (ALWAYS, *PHASES):
        for row in rows:
            if row.when == phase:
                line(row.what, row.bytes, phase + (", in main memory" if row.offloaded else ""))
    lines.append("  " + "-" * 53)
    line("held always", total(rows, ALWAYS), "")
    when, most = peak(rows)
    line("most at once", most, f"in phase: {when}")
    if any(row.offloaded for row in rows):
        when, most = peak(rows, offloaded=True)
        line("most at once in main memory", most, f"in phase: {when}")
        line("main memory for each process", main_memory() // hardware.processes, "")
    room = device_memory(hardware)
    if room is None:
        lines.append("  this machine has no CUDA device to compare with")
    else:
        gpu = hardware.device == "cuda"
        line("the CUDA device has" if gpu else "main memory for each process", room, "")
    return "\n".join([text.rstrip() for text in lines] + [f"  {note}" for note in notes])


def show(config: Config) -> None:
    """Print the table, and whether the run fits."""
    rows, notes = rows_of(config)
    print(table(config, rows, notes))
    try:
        warning = verdict(config, rows)
    except ConfigError as error:
        warning = f"this run will be refused: {error}"
    if warning is not None:
        print(warning)


def check(config: Config, speak: bool) -> None:
    """Refuse a run that cannot fit, warn of one that hardly will; `speak`: print what is found."""
    rows, notes = rows_of(config)
    warning = verdict(config, rows)
    if not speak:
        return
    if warning is not None:
        print(f"{table(config, rows, notes)}\n{warning}", flush=True)
        return
    when, most = peak(rows)
    room = device_memory(config.hardware)
    of = "" if room is None else f" of {room / GIB:.2f}"
    print(f"memory: about {most / GIB:.2f}{of} GiB per process (most in phase: {when})", flush=True)


def verdict(config: Config, rows: list[Row]) -> str | None:
    """A warning where the estimate nears what there is; ConfigError where the run cannot start."""
    warning = None
    share = main_memory() // config.hardware.processes
    cpu = config.hardware.device == "cpu"
    name = "main memory for each process is" if cpu else "the CUDA device has"
    pools = [(False, name, device_memory(config.hardware))]
    if any(row.offloaded for row in rows):
        pools.append((True, "main memory for each process is", share))
    for offloaded, name, room in pools:
        if room is None:
            continue
        held, (when, most) = total(rows, ALWAYS, offloaded), peak(rows, offloaded)
        require(
            held <= room,
            f"model={config.model.name} with hardware={config.hardware.name} holds "
            f"{held / GIB:.2f} GiB per process at all times, and {name} {room / GIB:.2f} "
            f"GiB; preflight_only=true says of what",
        )
        if most > WARN_ABOVE * room:
            warning = (
                f"warning: about {most / GIB:.2f} GiB in phase {when}, and {name} "
                f"{room / GIB:.2f} GiB: the run may end for want of memory"
            )
    return warning
