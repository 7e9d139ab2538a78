"""One agent's model: a language model with its adapter, or without, and perhaps a value head.

Then the numbers of its passes. Mixed precision: float32 weights, layers whose matrix products are
computed in bfloat16. DeepSpeed's own autocast spans all of a module's forward, the output head and
the value head with it, and sends gradients in bfloat16. Here both heads, log-probabilities and
gradients stay float32. TF32 is a switch of the whole process.
"""

import copy
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from cory import distributed
from cory.config import ConfigError, ModelConfig
from cory.functional.logprobs import LogitsOf, aligned_right, training_kl, training_logprobs
from cory.models.attention import BY_ROWS
from cory.models.loading import load_language_model, load_tensors

if TYPE_CHECKING:  # imported at run time only where adapters are asked for: it takes five seconds
    from cory.models.lora import SharedBase

# of tensors; TF32 is only what float32 numbers are rounded to inside a matrix product
DTYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}
VALUE_HEAD = "value_head.safetensors"  # file in an exported agent's folder
LIKELIHOOD_COEF = "likelihood_coef"  # in the notes of a verifier's value head, unless it is 0


def is_of_head(name: str) -> bool:
    """Whether a weight of an actor and critic is one of its value head's."""
    return name.startswith("value_head.")


class ValueHead(nn.Linear):
    """A linear layer on the last hidden states (Ma et al., eq. 10), made once per agent."""

    def __init__(
        self,
        lm: PreTrainedModel,
        config: ModelConfig | None = None,
        init: torch.Generator | None = None,
    ) -> None:
        """Weights uniform within 1/sqrt(hidden width), or 0; the bias is 0.

        config: how the head begins and learns; None: its weights are 0, to be loaded
        init: draws uniform weights
        """
        width = lm.get_output_embeddings().weight.shape[1]
        super().__init__(width, 1)
        self.detached = config is not None and config.value_detached
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)
        if config is not None and config.value_init == "uniform":
            nn.init.uniform_(self.weight, -(width**-0.5), width**-0.5, generator=init)

    def forward(self, hidden: Tensor) -> Tensor:
        """Value of each state: (N, H) -> (N,) float32.

        With `model.value_detached` the language model does not get its gradient.
        """
        if self.detached:
            hidden = hidden.detach()
        return super().forward(hidden).squeeze(-1).float()

    def save(self, path: Path, coef: float) -> None:
        """Write a safetensors file; coef: a verifier's likelihood_coef, which it notes."""
        weights = {k: v.detach().float().cpu().clone() for k, v in self.named_parameters()}
        save_file(weights, path, {LIKELIHOOD_COEF: repr(coef)} if coef else None)

    def load(self, path: Path, key: str) -> float:
        """Read such a file; ConfigError where it is damaged or of another width.

        key: the setting and value that named it
        returns: the coefficient that it notes, 0 if none
        """
        try:
            self.load_state_dict(load_tensors(path))
        except (ConfigError, RuntimeError) as error:
            said = " ".join(str(error).split())
            raise ConfigError(f"{key}: its value head cannot be loaded: {said}") from error
        with safe_open(path, "pt") as file:
            return float((file.metadata() or {}).get(LIKELIHOOD_COEF, "0"))


class Outputs(NamedTuple):
    """Of the response tokens, with gradient: (B, R) float32, 0 where the mask is False."""

    logprobs: Tensor
    values: Tensor | None  # None: there is no value head
    entropy: Tensor | None  # None, here and below: not asked for
    kl: Tensor | None  # exact, to the reference


class ActorCriticModel(nn.Module):
    """A language model, with or without a value head on its last hidden states (Ma et al., eq. 10).

    Letters: B turns, L context and response tokens, R response tokens, H hidden width.
    """

    def __init__(
        self,
        name: str,
        lm: PreTrainedModel,
        base: "SharedBase | None" = None,
        value_head: ValueHead | None = None,
    ) -> None:
        """base: the adapters that `lm` carries, this agent's among them; None when it has none."""
        super().__init__()
        self.name = name
        self.lm = lm
        self.base = base
        self.temperature = 1.0  # divides the logits in updates, the reference's like its own
        self.likelihood_coef = 0.0  # of a verifier (verdict_logits), which takes it along
        self.vocabulary = int(lm.config.vocab_size)
        self.value_head = value_head

    def activate(self) -> None:
        """With adapters, let this agent's adapter act and train, and no other."""
        if self.base is not None:
            self.base.peft.set_adapter(self.name)

    def trainable(self) -> dict[str, nn.Parameter]:
        """This agent's trained weights by name: all of its copy, or its adapter; and value head."""
        return {
            name: weight
            for name, weight in self.named_parameters()
            if self.base is None or f".{self.name}." in name or is_of_head(name)
        }

    def load(self, folder: Path, setting: str, remote_code: bool) -> None:
        """Read the weights of an exported agent; ConfigError where they do not fit.

        The value head of an agent that was trained without one stays as it is. One that this model
        has no use for is not read.

        folder: in `agents/` of a run
        setting: the one that named the run, for refusals
        remote_code: whether the checkpoint's own Python may run
        """
        key = f"{setting}={folder.parent.parent}"
        if self.base is None:
            source = load_language_model(
                str(folder), setting, keep_dropout=False, remote_code=remote_code
            )
            try:
                self.lm.load_state_dict(source.state_dict())
            except RuntimeError as error:
                raise ConfigError(f"{key}: {self.name} has other layers") from error
        else:
            self.base.load(self.name, folder)
        if self.value_head is None:
            return
        if (folder / VALUE_HEAD).exists():
            self.value_head.load(folder / VALUE_HEAD, key)
        else:
            distributed.note(f"{key} has no value heads: {self.name} begins with a new one")

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        response_mask: Tensor,
        ref_hidden: Tensor | None = None,
        ref_head: LogitsOf | None = None,
        entropy: bool = False,
        critic: Tensor | None = None,
        most: int = 0,
    ) -> Outputs:
        """What a loss reads of the response tokens.

        input_ids, attention_mask: (B, L)
        response_mask: (B, R) bool
        ref_hidden, ref_head: of the reference (`reference_states`), for the exact KL to it
        critic: (B, 2, M), as of `Batch`
        most: response tokens that some process has, so that each calls the head as often
        """
        self.activate()
        hidden = response_states(self.lm, input_ids, attention_mask, response_mask)
        tokens = input_ids[:, -response_mask.shape[1] :][response_mask]
        head = output_head(self.lm)
        sizes = self.vocabulary, self.temperature, most
        found = training_logprobs(hidden, head, tokens, *sizes, entropy)
        logprobs, entropies = found.unbind(1) if entropy else (found, None)
        values = kl = None
        if self.value_head is not None:
            values = self.values(hidden, response_mask, critic)
        if ref_hidden is not None and ref_head is not None:
            kl = training_kl(hidden, head, ref_hidden, ref_head, *sizes)
        others = [
            None if own is None else spread(own, response_mask) for own in (values, entropies, kl)
        ]
        return Outputs(spread(logprobs, response_mask), *others)

    def values(self, hidden: Tensor, response_mask: Tensor, critic: Tensor | None) -> Tensor:
        """Values (N,) of the response tokens: of their states (N, H), or of those of another pass,
        over what a central critic reads."""
        assert self.value_head is not None
        if critic is not None:
            with torch.set_grad_enabled(torch.is_grad_enabled() and not self.value_head.detached):
                hidden = response_states(self.lm, critic[:, 0], critic[:, 1], response_mask)
        values: Tensor = self.value_head(hidden)
        return values


def response_states(
    lm: PreTrainedModel, input_ids: Tensor, attention_mask: Tensor, response_mask: Tensor
) -> Tensor:
    """Last hidden states that predict the response tokens; the head skips prompt positions.

    input_ids, attention_mask: (B, L)
    response_mask: (B, R) bool
    returns: (N, H), a row for each True of `response_mask`, row by row
    """
    input_ids, attention_mask, response_mask = aligned_right(
        input_ids, attention_mask.bool(), response_mask
    )
    # no response token follows the last one
    input_ids, attention_mask = input_ids[:, :-1], attention_mask[:, :-1].long()
    positions = (attention_mask.cumsum(-1) - 1).clamp(min=0)
    with products(lm):
        states = lm.base_model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=positions,
            use_cache=False,
        ).last_hidden_state
    # the state before each response token
    before: Tensor = states[:, -response_mask.shape[1] :]
    return before[response_mask]


def output_head(lm: PreTrainedModel) -> LogitsOf:
    """From last hidden states (n, H) of `lm` to its logits (n, V), with gradient.

    The model's own forward pass over a body that gives these states: what Gemma 2 (a cap), Granite
    and Cohere (a scale) or others do behind their output layer is done wherever logits are needed.
    """
    bodiless = copy.copy(lm)  # the same weights, layers and configuration
    bodiless._modules = {**lm._modules, lm.base_model_prefix: GivenStates()}
    # not by `bodiless(...)`: hooks on the whole model, as those of ZeRO-3, are for whole passes
    forward: Any = type(lm).forward

    def logits_of(hidden: Tensor) -> Tensor:
        logits: Tensor = forward(bodiless, inputs_embeds=hidden[None], use_cache=False).logits
        return logits[0]

    return logits_of


class GivenStates:
    """In the place of a model's body, or of a decoder inside it: gives the states it is given."""

    def __getattr__(self, name: str) -> "GivenStates":
        return self

    def __call__(self, *args: Any, inputs_embeds: Tensor, **more: Any) -> "BodyOutput":
        return BodyOutput((inputs_embeds,))


class BodyOutput(tuple[Tensor]):
    """What a body returns; of all that models look for in it, it has the last hidden states."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Tensor | None:
        return self[0] if name == "last_hidden_state" else None


def spread(values: Tensor, mask: Tensor) -> Tensor:
    """Scatter values to the True entries of `mask`; 0 elsewhere."""
    return values.new_zeros(mask.shape).masked_scatter(mask, values)


def set_float32_products(chosen: Mapping[str, str], device: torch.device) -> None:
    """Let CUDA compute the float32 matrix products of this process in TF32, or exactly.

    In either case: some container images define TORCH_ALLOW_TF32_CUBLAS_OVERRIDE, which changes
    what torch does by itself.

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
    if dtype == lm.dtype:
        return
    lm.product_dtype = dtype
    has_own = hasattr(sys.modules[type(lm).__module__], "eager_attention_forward")
    if lm.config._attn_implementation == "eager" and has_own:
        lm.set_attn_implementation(BY_ROWS)


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


def products(lm: PreTrainedModel, computed: bool = True) -> AbstractContextManager[None]:
    """For a pass through the layers of `lm`: its matrix products in their own precision.

    computed: False around several passes without a change of weights, which cast each trained
        weight once for them all: torch forgets the casts where the outermost autocast ends
    """
    dtype = getattr(lm, "product_dtype", None)
    if dtype is None:
        return nullcontext()
    return torch.autocast(lm.device.type, dtype, enabled=computed)


def exact(layer: nn.Linear) -> None:
    """Let a layer compute in float32 from now on, whatever the precision of weights and products.

    Its weights stay as they are held.
    """

    def forward(hidden: Tensor) -> Tensor:
        with torch.autocast(hidden.device.type, enabled=False):
            bias = None if layer.bias is None else layer.bias.float()
            return F.linear(hidden.float(), layer.weight.float(), bias)

    layer.forward = forward  # type: ignore[method-assign, assignment]
