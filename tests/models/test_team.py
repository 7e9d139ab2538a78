"""The models of a team: which of their weights train."""

from __future__ import annotations

from collections.abc import Callable

import torch

from cory.config import Config
from cory.functional.masking import pad_turns
from cory.models.team import Team

CONTEXTS = [[5, 9, 40], [7], [11, 12, 13, 14, 15, 16, 17]]
RESPONSES = [[20, 21], [22, 23, 24, 25], [26]]
INPUTS = pad_turns(CONTEXTS, RESPONSES, 0)


def test_every_weight_of_a_copy_trains_and_none_of_the_reference(
    config_of: Callable[..., Config],
) -> None:
    team = Team(config_of().model, torch.device("cpu"))
    (model,) = team.new_models(["agent_0"], torch.Generator().manual_seed(0))
    logprobs, values = model.eval()(*INPUTS)
    (logprobs.sum() + values.sum()).backward()
    without = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert without == []
    assert all(p.grad is None and not p.requires_grad for p in team.pretrained.parameters())
