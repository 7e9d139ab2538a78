"""Log-probabilities and values of response tokens, and what padding must not do to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from cory.config import Config, ConfigError
from cory.functional.masking import pad_left, pad_right
from cory.models import team as team_module
from cory.models.actor_critic import ActorCriticModel
from cory.models.sampling.supported import require_supported
from cory.models.team import Team

CONTEXTS = [[5, 9, 40], [7], [11, 12, 13, 14, 15, 16, 17]]
RESPONSES = [[20, 21], [22, 23, 24, 25], [26]]


@pytest.fixture(scope="module")
def team(config_of: Callable[..., Config]) -> Team:
    return Team(config_of().model, torch.device("cpu"))


@pytest.fixture(scope="module")
def model(team: Team) -> ActorCriticModel:
    (policy,) = team.new_models(["agent_0"], torch.Generator().manual_seed(0))
    with torch.no_grad():  # another policy than the reference, so that KL is not 0
        for parameter in policy.lm.parameters():
            parameter.add_(0.02 * torch.randn(parameter.shape, generator=torch.manual_seed(1)))
    return policy.eval()


def tensors(
    contexts: list[list[int]], responses: list[list[int]]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    context, context_mask = pad_left(contexts, 0)
    response, response_mask = pad_right(responses, 0)
    return (
        torch.cat([context, response], 1),
        torch.cat([context_mask, response_mask], 1),
        response_mask,
    )


def test_every_weight_of_a_copy_trains_and_none_of_the_reference(
    team: Team, model: ActorCriticModel
) -> None:
    model.zero_grad()
    logprobs, values = model(*tensors(CONTEXTS, RESPONSES))
    (logprobs.sum() + values.sum()).backward()
    without = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert without == []
    assert all(p.grad is None and not p.requires_grad for p in team.pretrained.parameters())


SIZES = {
    **{"vocab_size": 320, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1},
    **{"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 8},
}


@pytest.mark.parametrize(
    ("kind", "own", "plain"),
    [
        ("granite", {"logits_scaling": 8.0}, {"logits_scaling": 1.0}),
        ("gemma2", {"final_logit_softcapping": 1e-4}, {"final_logit_softcapping": None}),
    ],
)
def test_a_model_that_changes_its_logits_after_the_head_is_refused(
    kind: str, own: dict[str, Any], plain: dict[str, Any]
) -> None:
    def built(settings: dict[str, Any]) -> PreTrainedModel:
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **SIZES, **settings))

    require_supported(built(plain).eval(), "model.path=x")
    with pytest.raises(
        ConfigError, match=r"^model\.path=x: this model changes what its output head"
    ):
        require_supported(built(own).eval(), "model.path=x")


def test_a_teams_model_is_looked_at(
    config_of: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(team_module, "require_supported", lambda lm, key: seen.append(key))
    config = config_of()
    Team(config.model, torch.device("cpu"))
    assert seen == [f"model.path={config.model.path}"]
