"""One agent's model: a language model with its adapter, or without, and perhaps a value head."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

from cory.config import ModelConfig
from cory.functional.logprobs import LogitsOf, aligned_right, training_kl, training_logprobs
from cory.models.precision import products

if TYPE_CHECKING:  # imported at run time only where adapters are asked for: it takes five seconds
    from cory.models.lora import SharedBase


def is_of_head(name: str) -> bool:
    """Whether a weight of an actor and critic is one of its value head's."""
    return name.startswith("value_head.")


class ValueHead(nn.Linear):
    """A linear layer on the last hidden states (Ma et al., eq. 10), made once per agent.

    Letters: N states, H hidden width.
    """

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
        self.probability = 0.0 if config is None else config.value_dropout
        self.detached = config is not None and config.value_detached
        with torch.no_grad():
            self.weight.zero_()
            self.bias.zero_()
            if config is not None and config.value_init == "uniform":
                self.weight.uniform_(-(width**-0.5), width**-0.5, generator=init)

    def forward(self, hidden: Tensor) -> Tensor:
        """Value of each state: (N, H) -> (N,) float32.

        With `model.value_detached` its gradient ends here: the language model does not get it.
        """
        if self.detached:
            hidden = hidden.detach()
        hidden = F.dropout(hidden, self.probability, self.training)
        return super().forward(hidden).squeeze(-1).float()


class ActorCriticModel(nn.Module):
    """A language model, with or without a value head on its last hidden states (Ma et al., eq. 10).

    Letters: B turns, L context and response tokens, R response tokens, H hidden width.
    """

    def __init__(
        self,
        name: str,
        lm: PreTrainedModel,
        base: SharedBase | None = None,
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

    @property
    def head(self) -> ValueHead:
        """The value head; ValueError where there is none."""
        if self.value_head is None:
            raise ValueError(f"{self.name} has no value head")
        return self.value_head

    def activate(self) -> None:
        """With adapters, let this agent's adapter act."""
        if self.base is not None:
            self.base.activate(self.name)

    def trainable(self) -> dict[str, nn.Parameter]:
        """This agent's trained weights by name: all of its copy, or its adapter; and value head."""
        named = dict(self.named_parameters())
        if self.base is None:
            return named
        own = {id(p) for p in self.base.parameters_of(self.name)}
        return {k: p for k, p in named.items() if id(p) in own or is_of_head(k)}

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        response_mask: Tensor,
        ref_hidden: Tensor | None = None,
        ref_head: LogitsOf | None = None,
        most: int = 0,
    ) -> tuple[Tensor, Tensor | None]:
        """Log-probabilities and values of the response tokens, with gradient.

        input_ids, attention_mask: (B, L)
        response_mask: (B, R) bool
        ref_hidden, ref_head: of the reference (`reference_outputs`), for the exact KL to it
        most: response tokens that some process has, so that each calls the head as often
        returns: logprobs (B, R), values (B, R); float32, 0 where the mask is False; without a value
            head the values are None. With a reference: logprobs and KL (2, B, R), values
        """
        self.activate()
        hidden = response_states(self.lm, input_ids, attention_mask, response_mask)
        tokens = input_ids[:, -response_mask.shape[1] :][response_mask]
        head = self.lm.get_output_embeddings()
        sizes = self.vocabulary, self.temperature, most
        logprobs = training_logprobs(hidden, head, tokens, *sizes)
        spoken = spread(logprobs, response_mask)
        if ref_hidden is not None and ref_head is not None:
            kl = training_kl(hidden, head, ref_hidden, ref_head, *sizes)
            spoken = torch.stack([spoken, spread(kl, response_mask)])
        return spoken, self.spread_values(hidden, response_mask)

    def spread_values(self, hidden: Tensor, response_mask: Tensor) -> Tensor | None:
        """Values (B, R) of the tokens of a mask, from their states (N, H); None without a head."""
        if self.value_head is None:
            return None
        return spread(self.value_head(hidden), response_mask)


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


def spread(values: Tensor, mask: Tensor) -> Tensor:
    """Scatter values to the True entries of `mask`; 0 elsewhere."""
    return torch.zeros(mask.shape, dtype=values.dtype, device=values.device).masked_scatter(
        mask, values
    )
