"""The memory that a run needs, estimated from its settings before anything is loaded.

Weights, gradients, Adam's moments and the cache are counted exactly; DeepSpeed's buffers are as its
code (0.19) has them; activations follow a formula.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from cory.config import (
    Config,
    ConfigError,
    ModelConfig,
    PPOConfig,
    TeamConfig,
    VerifierRewardConfig,
    judges,
    plan_of,
    require,
)
from cory.functional.logprobs import SLAB_BYTES
from cory.models.actor_critic import DTYPES
from cory.models.attention import attention_for
from cory.models.loading import skeleton
from cory.models.paths import context_length
from cory.rewards.verifier import whole_model

GIB = 2**30
BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}
WARN_ABOVE = 0.9  # share of the memory that there is

# When memory is held. After loading there are four phases, and what is held ALWAYS adds to each.
LOADING, SAMPLING, SCORING, PASSES, STEP = "loading", "sampling", "scoring", "passes", "step"
ALWAYS = (SAMPLING, SCORING, PASSES, STEP)
ALL_PASSES = (SAMPLING, SCORING, PASSES)

# Elements of DeepSpeed's buffers: gradients that are exchanged, weights that stage 3 gathers
BUFFER, GATHERED = 500_000_000, 1_100_000_000
MOMENTS_8BIT = 2 + 2 * 4 / 256  # bytes of a weight: two moments, a scale for 256 elements of each
UNFUSED = {"gelu_new": 3}  # tensors of the MLP's width that such an activation keeps
SPLIT = 1000  # prompts that a whole test split is taken to have


@dataclass(frozen=True)
class Part:
    what: str
    bytes: int
    when: tuple[str, ...] = ALWAYS
    beside: bool = False  # in main memory, beside a GPU


class Shape:
    """The sizes of a language model, which need not have weights; elements, not bytes."""

    def __init__(self, lm: PreTrainedModel) -> None:
        config, head = lm.config, lm.get_output_embeddings()
        # weights used twice count once
        self.parameters = int(lm.num_parameters())
        # name, width in, width out; without the output head
        self.linear: list[tuple[str, int, int]] = [
            (name.rpartition(".")[2], *module.weight.shape[:: 1 if type(module) is Conv1D else -1])
            for name, module in lm.named_modules()
            if isinstance(module, nn.Linear | Conv1D) and module is not head
        ]
        self.products: list[int] = [wide * out for _, wide, out in self.linear]
        self.width = int(head.weight.shape[1])
        self.widest = max(out for _, _, out in self.linear)  # inside an MLP
        self.layers, self.heads = int(config.num_hidden_layers), int(config.num_attention_heads)
        per_head = getattr(config, "head_dim", None) or int(config.hidden_size) // self.heads
        kv_heads = getattr(config, "num_key_value_heads", None) or self.heads
        self.cache = 2 * self.layers * kv_heads * per_head  # keys and values of a token
        self.vocabulary = int(config.vocab_size)
        self.context = context_length(config)
        self.unfused = UNFUSED.get(getattr(config, "activation_function", ""), 0) * self.widest

    def saved(self, targets: list[str]) -> int:
        """Elements per token that all layers keep for the backward pass.

        Outputs of linear layers, inputs of those that train, two norms, the MLP's activation.

        targets: names of the layers that train through an adapter; none: all layers train
        """
        inputs = sum(i for name, i, _ in self.linear if not targets or name in targets)
        outputs = sum(o for _, _, o in self.linear)
        return inputs + outputs + self.layers * (2 * self.width + self.unfused)


def frozen_bytes(shape: Shape, model: ModelConfig | VerifierRewardConfig) -> int:
    """Bytes of a frozen model: its linear layers in NF4, or as their products need them."""
    each, packed = BYTES[model.precision], sum(shape.products)
    if model.quantisation == "none":
        return each * (shape.parameters - packed) + BYTES[model.compute_precision] * packed
    # half a byte, and a scale for 64 weights: a byte, and a float32 for 256 of those, or a float32
    four_bits = 0.5 + (1 + 4 / 256 if model.double_quantisation else 4) / 64
    return each * (shape.parameters - packed) + int(four_bits * packed)


def engine_parts(config: Config, model: ModelConfig, each_trains: Sequence[int]) -> list[Part]:
    """What DeepSpeed and AdamW hold of the weights that train, and what an update needs.

    Full copies of MAFT share one engine, and between their turns each has its weights alone.

    each_trains: elements that each agent trains
    """
    hardware, stage = config.hardware, config.hardware.zero_stage
    each, trained = BYTES[model.precision], max(each_trains)  # by one agent at a time
    shares = [-(-elements // hardware.world) for elements in each_trains]
    gpu = hardware.device == "cuda"
    away, apart = gpu and hardware.offload_optimizer, gpu and hardware.offload_parameters
    one_engine = config.algorithm.one_engine(model.sharing)
    owned_each = shares if stage else each_trains  # by this process's AdamW
    owned = max(owned_each)
    in_engines = (max if one_engine else sum)(owned_each)
    moments = MOMENTS_8BIT if config.algorithm.optimizer == "adamw_8bit" else 8
    weights = (max if one_engine else sum)(shares if stage == 3 else each_trains)
    parts = [
        Part("weights that train", each * weights, beside=apart),
        Part("Adam's two moments", int(moments * in_engines), beside=away),
    ]
    if stage > 0 or model.precision != "fp32":
        parts.append(Part("float32 copy of the weights", 4 * in_engines, beside=away))
        copied = 4 * (in_engines if away else owned)
        parts.append(Part("gradients in float32", copied, ALWAYS if away else (STEP,), away))
    if stage == 3:
        parts.append(Part("gradients", each * weights, beside=away))
    else:
        size = each * (trained if stage < 2 else max(shares))
        parts.append(Part("gradients", size, (PASSES, STEP)))
    # gradients to exchange, of some weights at a time; AdamW's square roots of the moments
    parts.append(Part("buffers of the update", each * min(trained, BUFFER), (STEP,)))
    parts.append(Part("AdamW's intermediate results", 4 * owned, (STEP,), away))
    if one_engine:
        kept = 4 if config.algorithm.trains_on() else each
        parts.append(Part("weights of all policies", kept * sum(owned_each), beside=gpu))
    return parts


def pass_parts(config: Config, key: str, shape: Shape, targets: list[str]) -> list[Part]:
    """What roll-outs and passes of the model `key` hold: cache, logits, activations."""
    model = config.models[key]
    algorithm, hardware, evaluation = config.algorithm, config.hardware, config.evaluation
    each, products = BYTES[model.precision], BYTES[model.compute_precision]
    response, longest = config.longest_response(key), longest_context(config)
    length = min(longest + response, shape.context or longest + response)
    held_out = (evaluation.prompts or SPLIT) * evaluation.samples
    turns = algorithm.rows_sampled()
    sampled = min(hardware.responses_at_once, -(-max(turns, held_out) // hardware.world))
    # where rows are dropped, a layer's old keys are held beside the new for a moment
    cache = sampled * length * (shape.cache + shape.cache // (2 * shape.layers))
    # groups of responses are also scored over keys and values of their prompt
    grouped = isinstance(algorithm, PPOConfig) and algorithm.samples_per_prompt > 1
    cached = (SAMPLING, SCORING) if grouped else (SAMPLING,)
    scored = min(hardware.rollout_batch_size, -(-turns // hardware.world))
    micro, kept = plan_of(config).microbatch, shape.saved(targets)
    dtype, device = DTYPES[model.compute_precision], torch.device(hardware.device)
    if attention_for(model.attention, device, dtype) == "eager":  # its softmax, and that rounded
        kept += 2 * shape.layers * shape.heads * length
    if hardware.gradient_checkpointing:  # the input of every layer, and one layer recomputed
        kept = shape.layers * shape.width + kept // shape.layers
    if central(config) and not model.value_detached:  # the values' own pass
        kept *= 2
    layer, vocabulary = 3 * shape.widest + 4 * shape.width, shape.vocabulary
    # a token's: logits and their halves, log-probabilities, probabilities, float64 sums, seen
    drawn = 23 * sampled * vocabulary
    both = min(24 * scored * response * vocabulary, SLAB_BYTES)  # by policy and reference
    # float32: log-probabilities and two gradients of them, and the logits
    learned = 14 * min(micro * response * vocabulary, SLAB_BYTES // 4)
    parts = [
        Part("KV cache", cache * (each if model.quantisation != "none" else products), cached),
        Part("logits", drawn, (SAMPLING,)),
        Part("activations of a layer", each * scored * length * layer, (SCORING,)),
        Part("logits", both, (SCORING,)),
        Part("activations", each * micro * length * kept, (PASSES,)),
        Part("logits", learned, (PASSES,)),
    ]
    if model.quantisation != "none":
        unpacked = products * max(shape.products)
        parts.append(Part("a layer unpacked from 4 bits", unpacked, ALL_PASSES))
    elif products != each and (model.sharing == "copies" or hardware.zero_stage == 3):
        cast = products * sum(shape.products)
        parts.append(Part("weights cast for products", cast, ALL_PASSES))
    return parts


def model_parts(config: Config, key: str, agents: Sequence[str]) -> list[Part]:
    """All that a process holds of one of `Config.models` and of the policies that start from it."""
    model = config.models[key]
    hardware, algorithm = config.hardware, config.algorithm
    lm = skeleton(model.path, f"{key}.path", model.described, model.remote_code)
    shape, targets, each = Shape(lm), list[str](), BYTES[model.precision]
    head = shape.width + 1 if algorithm.has_value_head() else 0  # weight and bias
    frozen = frozen_bytes(shape, model)
    loaded = frozen if model.quantisation != "none" else each * shape.parameters
    split = hardware.zero_stage == 3
    if model.sharing == "copies":
        each_trains = [shape.parameters + head for _ in agents]
        references = len(agents) if model.reference == "init_from" else 1
        parts = [Part("reference", frozen * references if algorithm.reads_reference() else 0)]
        if getattr(algorithm, "runs_played_against", None):  # agents of other runs, one at a time
            parts.append(Part("the opponent that plays", frozen, (SAMPLING,)))
    else:
        from cory.models.lora import adapted_layers  # noqa: PLC0415  PEFT takes five seconds

        each_trains = []
        for name in agents:
            adapter = config.model_of(name).adapter
            adapted = adapted_layers(lm, adapter.targets, config.key_of(name))
            sides = sum(wide + out for layer, wide, out in shape.linear if layer in adapted)
            each_trains.append(adapter.rank * sides + head)
            targets = sorted({*targets, *adapted})
        share = -(-loaded // hardware.world) if split else frozen
        apart = hardware.device == "cuda" and hardware.offload_parameters
        parts = [Part("base, frozen", share, beside=apart)]
        loaded += share if split else 0
    parts.append(Part("the model as it is read", loaded, (LOADING,)))
    if split and hardware.world > 1:
        base = 0 if model.sharing == "copies" else shape.parameters
        gathered = base + max(each_trains, default=0)
        parts.append(Part("weights put together", each * gathered, (SAMPLING, SCORING)))
        parts.append(Part("weights put together", each * min(gathered, GATHERED), (PASSES,)))
    passes = pass_parts(config, key, shape, targets)
    if not agents:
        return parts + [part for part in passes if part.when != (PASSES,)]
    return parts + engine_parts(config, model, each_trains) + passes


def judge_part(key: str, reward: Any) -> Part:
    """The model of a reward, a verifier or classifier; what is out of reach does not count."""
    if not hasattr(reward, "path"):
        return Part(key, 0)
    verifier = isinstance(reward, VerifierRewardConfig)
    path = whole_model(reward) if verifier else reward.path
    try:
        lm = skeleton(path, f"{key}.path", classifier=not verifier)
    except ConfigError:
        return Part(f"{key} (out of reach: not counted)", 0)
    each = BYTES[getattr(reward, "precision", "fp32")]
    return Part(key, frozen_bytes(Shape(lm), reward) if verifier else each * lm.num_parameters())


def parts_of(config: Config) -> list[Part]:
    """The memory of a process of a run; ConfigError where a model is not known."""
    policies: list[str] = config.algorithm.names()
    of_models = [
        model_parts(config, key, [name for name in policies if config.group_of(name) == key])
        for key in config.models
    ]
    # all are held, and one of them works at a time
    working = max(of_models, key=lambda found: peak(found)[1])
    by_all = (ALWAYS, (LOADING,))
    parts = [part for own in of_models for part in own if own is working or part.when in by_all]
    return parts + [judge_part(key, reward) for key, reward in judges(config.reward).items()]


def held(parts: Sequence[Part], beside: bool = False) -> int:
    """Bytes held at all times after loading, on the device or beside it."""
    return sum(part.bytes for part in parts if part.when == ALWAYS and part.beside == beside)


def peak(parts: Sequence[Part], beside: bool = False) -> tuple[str, int]:
    """The phase that holds most, on the device or beside it, and its bytes."""
    sizes = dict.fromkeys((LOADING, *ALWAYS), 0)
    for part in parts:
        for phase in part.when:
            sizes[phase] += part.bytes if part.beside == beside else 0
    return max(sizes.items(), key=lambda item: item[1])


def main_memory() -> int:
    """Bytes of main memory of this machine, or of the container that it is."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        path = Path("/sys/fs/cgroup") / name
        if path.is_file() and (text := path.read_text(encoding="utf-8").strip()).isdigit():
            limits.append(int(text))
    return min(limits)


def check(config: Config) -> str:
    """What the run will need, in a line; ConfigError where it plainly cannot fit."""
    hardware, parts = config.hardware, parts_of(config)
    share = main_memory() // hardware.processes
    room: int | None = share  # of the device; None for a GPU that this machine lacks
    if hardware.device == "cuda":
        there = torch.cuda.is_available()
        room = torch.cuda.get_device_properties(0).total_memory if there else None
    for beside, most in ((False, room), (True, share)):
        size = held(parts, beside)
        require(
            most is None or size <= most,
            f"model={config.model.name} with hardware={hardware.name} needs {size / GIB:.2f} GiB "
            f"of {'main ' if beside else ''}memory per process at all times, and there are "
            f"{(most or 0) / GIB:.2f} GiB; python scripts/memory.py says for what",
        )
    _, needed = peak(parts)
    line = f"memory: about {needed / GIB:.2f} GiB per process at most"
    if room is None or needed <= WARN_ABOVE * room:
        return line
    there_are = f"with hardware={config.hardware.name} there are {room / GIB:.2f} GiB"
    less = "hardware.microbatch_size=4, hardware.rollout_batch_size=16 or adapter=lora need less"
    return f"warning: {line}; {there_are}, and the run may end for want of memory; {less}"


def central(config: Config) -> bool:
    """Whether values are read from what all agents have said."""
    return getattr(config.algorithm, "critic", "own") == "central"


def longest_context(config: Config) -> int:
    """Tokens of the longest prompt, about: of the last observer, or of a debater's last round.

    It quotes the question with each earlier answer; words of templates are not counted.
    """
    task, algorithm = config.task, config.algorithm
    query, response = int(task.max_prompt_tokens), max(map(config.longest_response, config.models))
    if central(config) and algorithm.holds_debates:  # its critic is shown all rounds
        return query + int(algorithm.agents) * int(algorithm.turns) * response
    if isinstance(algorithm, TeamConfig):  # what it shows is the user's; say, all others' answers
        return query + len(algorithm.agents) * response
    if algorithm.holds_debates:  # without a chat template only the last round is shown
        agents = max(int(algorithm.agents), int(algorithm.evaluation_agents))
        rounds = max(int(algorithm.turns), int(algorithm.evaluation_turns)) - 1
        shown = rounds if config.model.chat else min(rounds, 1)
        return query + shown * (agents * response + (query if config.model.chat else 0))
    earlier = len(algorithm.names()) - 1
    told = getattr(algorithm, "knowledge_transfer", True) or central(config)
    if earlier == 0 or not told:
        return query
    quoted = query if "{query}" in task.answer_template else 0
    return query + earlier * (response + quoted)
