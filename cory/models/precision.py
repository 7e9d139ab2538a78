"""Mixed precision: float32 weights, layers whose matrix products are computed in bfloat16.

TF32, which CUDA can use for float32 products, is a switch of the whole process.

DeepSpeed's own autocast spans all of a module's forward, the output head and the value head with
it, and sends gradients in bfloat16. Here both heads, log-probabilities and gradients stay float32.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from cory.models.attention import attend_by_rows

# of tensors; TF32 is only what float32 numbers are rounded to inside a matrix product
DTYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}


def set_float32_products(chosen: Mapping[str, str], device: torch.device) -> None:
    """Let CUDA compute the float32 matrix products of this process in TF32, or exactly.

    It is set in either case: TORCH_ALLOW_TF32_CUBLAS_OVERRIDE, which some container images define,
    changes what torch does by itself. Devices before Ampere have no TF32 and compute exactly.

    chosen: `compute_precision` of every model in the process, by its setting
    """
    rounded = "tf32" in chosen.values() and device.type == "cuda"
    torch.set_float32_matmul_precision("high" if rounded else "highest")


def cast_weights(model: nn.Module, dtype: torch.dtype) -> None:
    """Cast all weights, and no buffers: those of rotary positions stay float32, as they are loaded.

    In bfloat16 their frequencies are off by up to 0.4 %, at position 500 by two radians.
    """
    for weight in model.parameters():
        if weight.is_floating_point() and weight.dtype != dtype:
            weight.data = weight.data.to(dtype)


def set_products(lm: PreTrainedModel, dtype: torch.dtype) -> None:
    """Let `products` compute in `dtype` from now on; copies of the model keep it."""
    if dtype != lm.dtype:
        lm.product_dtype = dtype
        attend_by_rows(lm)


def store_as_products(lm: PreTrainedModel) -> None:
    """Keep the linear layers of a model that never trains in the precision of their products.

    Passes would cast its frozen weights at every call, to the same bits: autocast remembers only
    the casts of weights that train. The output head, embeddings, norms and adapters stay as they
    are. Not for a base that ZeRO-3 splits, which needs one precision.
    """
    dtype = getattr(lm, "product_dtype", None)
    if dtype is None:
        return
    for name, layer in lm.base_model.named_modules():
        if isinstance(layer, nn.Linear | Conv1D) and ".lora_" not in name:
            for weight in layer.parameters(recurse=False):
                weight.data = weight.data.to(dtype)


def products(lm: PreTrainedModel) -> AbstractContextManager[None]:
    """For a pass through the layers of `lm`: its matrix products in their own precision."""
    dtype = getattr(lm, "product_dtype", None)
    if dtype is None:
        return nullcontext()
    return torch.autocast(lm.device.type, dtype)


def exact(layer: nn.Linear) -> None:
    """Let a layer compute in float32 from now on, whatever the precision of weights and products.

    Its weights stay as they are held.
    """

    def forward(hidden: Tensor) -> Tensor:
        with torch.autocast(hidden.device.type, enabled=False):
            bias = None if layer.bias is None else layer.bias.float()
            return functional.linear(hidden.float(), layer.weight.float(), bias)

    layer.forward = forward  # type: ignore[method-assign, assignment]


def kept_casts(lm: PreTrainedModel) -> AbstractContextManager[None]:
    """For several passes without a change of weights: cast each trained weight once for them all.

    torch forgets the casts where the outermost autocast ends; this one computes nothing by itself.
    """
    if getattr(lm, "product_dtype", None) is None:
        return nullcontext()
    return torch.autocast(lm.device.type, enabled=False)


def attention_for(chosen: str, device: torch.device, products: torch.dtype) -> str | None:
    """What `model.attention` is on this device, in the library's word; None: the library's choice.

    On a CPU, SDPA's backward in bfloat16 took 44 % of an update step; eager attention none of that.
    """
    if chosen != "auto":
        return chosen
    return "eager" if device.type == "cpu" and products == torch.bfloat16 else None
