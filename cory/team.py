"""The agents' models: one full copy per agent, and one frozen reference for all of them."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from cory.config import ModelConfig
from cory.functional.logprobs import TokenStatistics, token_statistics, training_logprobs
from cory.pretrained import load_language_model, load_tokenizer

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class PolicyModel(nn.Module):
    """A language model with a value head on its last hidden states (Ma et al., eq. 10).

    Letters: B turns, L context and response tokens, R response tokens, H hidden width.
    """

    def __init__(self, lm: PreTrainedModel, value_dropout: float, init: torch.Generator) -> None:
        super().__init__()
        self.lm = lm
        width = lm.get_output_embeddings().weight.shape[1]
        self.value_dropout = nn.Dropout(value_dropout)
        self.value_head = nn.Linear(width, 1)
        bound = width**-0.5
        with torch.no_grad():
            self.value_head.weight.uniform_(-bound, bound, generator=init)
            self.value_head.bias.zero_()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, response_mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Log-probabilities and values of the response tokens, with gradient.

        input_ids, attention_mask: (B, L)
        response_mask: (B, R) bool
        returns: logprobs (B, R), values (B, R); float32, 0 where the mask is False
        """
        hidden = response_states(self.lm, input_ids, attention_mask, response_mask)
        tokens = input_ids[:, -response_mask.shape[1] :][response_mask]
        head = self.lm.get_output_embeddings()
        logprobs = training_logprobs(hidden, head, tokens, head.weight.shape[0])
        return spread(logprobs, response_mask), spread(self.values(hidden), response_mask)

    def values(self, hidden: Tensor) -> Tensor:
        """Value of the state before each token: (N, H) -> (N,) float32."""
        values: Tensor = self.value_head(self.value_dropout(hidden))
        return values.squeeze(-1).float()


class Team:
    """The models of one run: a tokenizer, a frozen reference, and a new copy for each agent."""

    def __init__(self, config: ModelConfig, device: torch.device) -> None:
        self.config = config
        self.device = device
        self.tokenizer: PreTrainedTokenizerBase = load_tokenizer(config.path, "model.path")
        self.pretrained = load_language_model(config.path, "model.path", config.dropout)
        self.pretrained.requires_grad_(False).to(device, DTYPES[config.precision])

    @property
    def context_length(self) -> int:
        """The most tokens that the model can see at once."""
        return int(self.pretrained.config.max_position_embeddings)

    def new_model(self, init: torch.Generator) -> PolicyModel:
        """A trainable copy of the pretrained model, in float32, with a new value head."""
        lm = copy.deepcopy(self.pretrained).float().requires_grad_(True)
        return PolicyModel(lm, self.config.value_dropout, init).to(self.device)

    @torch.no_grad()
    def statistics(
        self, model: PolicyModel, input_ids: Tensor, attention_mask: Tensor, response_mask: Tensor
    ) -> tuple[TokenStatistics, Tensor]:
        """Statistics and values of a roll-out: one pass of the policy, one of the reference.

        input_ids, attention_mask: (B, L)
        response_mask: (B, R) bool
        returns: statistics, each (B, R); values (B, R); float32, 0 where the mask is False
        """
        hidden = response_states(model.lm, input_ids, attention_mask, response_mask)
        ref_hidden = response_states(self.pretrained, input_ids, attention_mask, response_mask)
        head = model.lm.get_output_embeddings()
        statistics = token_statistics(
            hidden,
            head,
            ref_hidden,
            self.pretrained.get_output_embeddings(),
            input_ids[:, -response_mask.shape[1] :][response_mask],
            head.weight.shape[0],
        )
        return (
            TokenStatistics(*(spread(column, response_mask) for column in statistics)),
            spread(model.values(hidden), response_mask),
        )


def response_states(
    lm: PreTrainedModel, input_ids: Tensor, attention_mask: Tensor, response_mask: Tensor
) -> Tensor:
    """Last hidden states that predict the response tokens; prompt positions never meet the head.

    input_ids, attention_mask: (B, L)
    response_mask: (B, R) bool
    returns: (N, H), a row for each True of `response_mask`, row by row
    """
    # the last token predicts nothing that is asked for
    input_ids, attention_mask = input_ids[:, :-1], attention_mask[:, :-1].long()
    positions = (attention_mask.cumsum(-1) - 1).clamp(min=0)
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
    """Numbers of the True entries of `mask` put back into its shape, 0 elsewhere."""
    return torch.zeros(mask.shape, dtype=values.dtype, device=values.device).masked_scatter(
        mask, values
    )
