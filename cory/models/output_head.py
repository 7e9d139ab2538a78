"""Logits of hidden states, as the model itself makes them: capped, scaled or transformed."""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from cory.functional.logprobs import LogitsOf


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

    def __getattr__(self, name: str) -> GivenStates:
        return self

    def __call__(self, *args: Any, inputs_embeds: Tensor, **more: Any) -> BodyOutput:
        return BodyOutput((inputs_embeds,))


class BodyOutput(tuple[Tensor]):
    """What a body returns; of all that models look for in it, it has the last hidden states."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Tensor | None:
        return self[0] if name == "last_hidden_state" else None
