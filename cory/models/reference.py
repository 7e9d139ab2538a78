"""The frozen reference in an update, for the exact KL to it."""

import torch
from torch import Tensor, nn

from cory.models.team import ActorCriticModel, Team, response_states


@torch.no_grad()
def reference_outputs(
    team: Team,
    model: ActorCriticModel,
    input_ids: Tensor,
    attention_mask: Tensor,
    response_mask: Tensor,
) -> tuple[Tensor, nn.Module]:
    """Hidden states of the reference before the response tokens (N, H), and its output head.

    Without dropout, whatever mode the model is in: with adapters they are the same layers.

    input_ids, attention_mask: (B, L)
    response_mask: (B, R) bool, True on N tokens
    """
    model.activate()
    with team.reference(model) as lm:
        training = lm.training
        lm.eval()
        hidden = response_states(lm, input_ids, attention_mask, response_mask)
        lm.train(training)
        head: nn.Module = lm.get_output_embeddings()
    return hidden, head
