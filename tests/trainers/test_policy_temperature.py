"""`algorithm.policy_temperature`: what divides the logits in updates, of policy and reference."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from cory.config import Config
from cory.episode import turns_of
from tests.support.building import LetterShare, build

COOL = ["algorithm.sampling.temperature=0.7", "algorithm.policy_temperature=0.7"]


@pytest.mark.parametrize(("temperature", "same"), [(0.7, True), (1.0, False), (1.4, False)])
def test_what_is_updated_is_what_was_sampled(
    config_of: Callable[..., Config],
    capsys: pytest.CaptureFixture[str],
    temperature: float,
    same: bool,
) -> None:
    config = config_of(COOL[0], f"algorithm.policy_temperature={temperature}")
    metrics = build(config, LetterShare()).step(0)
    gap = metrics["objective/sampler_gap/agent_0"]
    assert (abs(gap) < 1e-4) == same, gap
    assert ("samples from another distribution" in capsys.readouterr().err) == (not same)


def test_log_probabilities_entropy_and_kl_by_hand(config_of: Callable[..., Config]) -> None:
    """Of a policy that has moved away from its reference; scored, and in training."""
    trainer = build(config_of(*COOL, "algorithm.kl_estimator=full"), LetterShare())
    trainer.step(0)
    agent = trainer.agents["agent_0"]
    with torch.no_grad():
        for parameter in agent.model.lm.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    turns = turns_of(trainer.episodes, "agent_0")[:2]
    for turn in turns:
        turn.credit = 0.0
    batch = agent.annotate(turns)
    trained, _ = agent.engine(batch.input_ids, batch.attention_mask, batch.response_mask)
    for row, turn in enumerate(turns):
        ids = torch.tensor([turn.context_ids + turn.response_ids])
        start = len(turn.context_ids)
        own, ref = (
            (lm(input_ids=ids).logits[0, start - 1 : -1] / 0.7).log_softmax(-1)
            for lm in (agent.model.lm.eval(), trainer.agents["agent_0"].team.pretrained.eval())
        )
        said = ids[0, start:, None]
        by_hand = {
            "logprobs": own.gather(-1, said).squeeze(-1),
            "ref_logprobs": ref.gather(-1, said).squeeze(-1),
            "entropy": -(own.exp() * own).sum(-1),
            "kl": (own.exp() * (own - ref)).sum(-1),
        }
        length = len(turn.response_ids)
        for name, expected in by_hand.items():
            found = getattr(batch, name)[row, :length]
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4, msg=name)
        torch.testing.assert_close(trained[row, :length], by_hand["logprobs"], rtol=1e-4, atol=1e-4)
