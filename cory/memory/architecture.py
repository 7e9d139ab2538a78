"""The sizes of an architecture that memory depends on, from a model without weights."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from cory.models.context import require_context_length
from cory.models.loading import output_head

BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}

# tensors of the MLP's width that an activation of several operations saves for the backward pass
UNFUSED = {"gelu_new": 3}
NF4_BLOCK, NF4_SCALES = 64, 256  # weights per scale; scales per scale of scales


class Packing(Protocol):
    """The number format of a model's weights."""

    precision: str
    quantisation: str
    double_quantisation: bool
    compute_precision: str


@dataclass
class Packed:
    """A number format; as `Packing`."""

    precision: str
    quantisation: str
    double_quantisation: bool
    compute_precision: str


FLOAT32 = Packed("fp32", "none", False, "fp32")


@dataclass(frozen=True)
class Shape:
    """The sizes of an architecture; elements, not bytes."""

    tensors: tuple[int, ...]  # elements of each weight; weights used twice count once
    linear: tuple[tuple[str, int, int], ...]  # name, width in, width out; without the output head
    width: int  # of the hidden states
    layers: int
    heads: int  # of a layer's attention
    cache: int  # keys and values of one token, in all layers
    vocabulary: int
    context: int  # most tokens at once
    activation: str
    stored: int  # bytes of an element in the checkpoint

    @property
    def parameters(self) -> int:
        return sum(self.tensors)

    def saved(self, targets: list[str]) -> int:
        """Elements per token that all layers save for the backward pass.

        The outputs of all linear layers, the inputs of those that train, two norms, and the MLP's
        activation.

        targets: names of the layers that train through an adapter; none: all layers train
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
        heads=heads,
        cache=2 * layers * kv_heads * per_head,
        vocabulary=int(config.vocab_size),
        context=require_context_length(config, "model"),
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
    one, two = module.weight.shape  # type: ignore[misc]  # nn.Module knows no weight
    return (one, two) if isinstance(module, Conv1D) else (two, one)


def base_bytes(shape: Shape, model: Packing) -> int:
    """Bytes of a frozen language model: in its precision, perhaps with linear layers in NF4."""
    return packed_bytes(shape.parameters, ((wide, out) for _, wide, out in shape.linear), model)


def packed_bytes(parameters: int, linear: Iterable[tuple[int, int]], model: Packing) -> int:
    """Bytes of frozen weights.

    linear: widths in and out of the layers that quantisation packs; others keep the precision
    """
    each = BYTES[model.precision]
    total = each * parameters
    if model.quantisation == "none":
        return total
    for wide, out in linear:
        scales = -(-wide * out // NF4_BLOCK)
        total += wide * out // 2 - each * wide * out
        # double quantisation: a byte per scale, and a float32 for each 256 scales
        total += scales + 4 * -(-scales // NF4_SCALES) if model.double_quantisation else 4 * scales
    return total


def classifier_bytes(model: PreTrainedModel, packing: Packing) -> int:
    """Bytes of a frozen sequence classifier without weights; its head keeps its precision.

    The layers below it are packed, or kept as their products need them.
    """
    head = output_head(model)
    linear = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | Conv1D) and (head is None or name != head[0])
    ]
    whole = sum(p.numel() for p in model.parameters())
    total = packed_bytes(whole, [widths(module) for _, module in linear], packing)
    if packing.quantisation == "none":
        below = {id(module) for module in model.base_model.modules()}
        rounded = [module for _, module in linear if id(module) in below]
        fewer = BYTES[packing.precision] - BYTES[packing.compute_precision]
        total -= fewer * sum(p.numel() for module in rounded for p in module.parameters())
    return total


def saved_by_casting(shape: Shape, model: Packing) -> int:
    """Bytes that a frozen model needs less once its linear layers are kept as products need them.

    Their biases, which are cast, too, are not counted.
    """
    if model.quantisation != "none":
        return 0
    each = BYTES[model.precision] - BYTES[model.compute_precision]
    return each * sum(wide * out for _, wide, out in shape.linear)


def adapter_tensors(shape: Shape, targets: list[str], rank: int) -> list[int]:
    """Elements of each matrix of a LoRA adapter: (rank, in) and (out, rank) per layer."""
    return [
        rank * side
        for name, wide, out in shape.linear
        if last_part(name) in targets
        for side in (wide, out)
    ]
