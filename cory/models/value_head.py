"""The value head: what a state is worth, from a language model's last hidden states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cory.config import ModelConfig

if TYPE_CHECKING:
    from transformers import PreTrainedModel


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
