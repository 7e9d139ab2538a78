"""The models of a team: which of their weights train, and which models are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from cory.config import Config, ConfigError
from cory.functional.masking import pad_turns
from cory.models import team as team_module
from cory.models.sampling.supported import require_supported
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
