"""Turns of unequal lengths: padding and the order in a batch change no number."""

from __future__ import annotations

from collections.abc import Callable

import torch

from cory.config import Config
from cory.episode import Turn
from tests.support.building import LetterShare, build
from tests.support.close import assert_close

CONTEXTS, RESPONSES = (9, 2, 5, 1, 7, 3, 4, 8), (1, 6, 0, 4, 2, 6, 3, 5)  # tokens


def turns(agent: str) -> list[Turn]:
    """One of them absent; credits are all different."""
    stream = torch.Generator().manual_seed(3)

    def ids(length: int) -> list[int]:
        return torch.randint(300, (length,), generator=stream).tolist()

    return [
        Turn(agent, agent, 1, "", "", ids(c), ids(r), credit=float(number) if r else None)
        for number, (c, r) in enumerate(zip(CONTEXTS, RESPONSES, strict=True))
    ]


def test_statistics_are_those_of_each_turn_alone(config_of: Callable[..., Config]) -> None:
    """Scored, and in training; `algorithm.policy_temperature` divides all logits."""
    words = ["algorithm=ppo", "hardware.rollout_batch_size=3", "algorithm.kl_estimator=full"]
    words += ["algorithm.sampling.temperature=0.7", "algorithm.policy_temperature=0.7"]
    agent = build(config_of(*words), LetterShare()).agents["agent_0"]
    with torch.no_grad():  # a policy that is no longer its reference
        for parameter in agent.model.trainable().values():
            parameter.add_(0.05 * torch.randn_like(parameter))
    batch = agent.annotate(turns("agent_0"))
    trained, _ = agent.engine(batch.input_ids, batch.attention_mask, batch.response_mask)
    for row, turn in enumerate(turns("agent_0")):
        length = len(turn.response_ids)
        assert batch.response_mask[row].tolist() == [True] * length + [False] * (6 - length)
        if turn.absent:
            continue
        ids = torch.tensor([[*turn.context_ids, *turn.response_ids]])
        chosen = torch.tensor(turn.response_ids)[:, None]
        places = slice(-length - 1, -1)
        with torch.no_grad():
            own, ref = (
                (lm(ids).logits[0, places] / 0.7).log_softmax(-1)
                for lm in (agent.model.lm, agent.bundle.pretrained)
            )
            values = agent.model.head(agent.model.lm.base_model(ids).last_hidden_state[0, places])
        logprobs = own.gather(1, chosen).squeeze(1)
        for found, expected in (
            (batch.logprobs, logprobs),
            (trained, logprobs),
            (batch.ref_logprobs, ref.gather(1, chosen).squeeze(1)),
            (batch.entropy, -(own.exp() * own).sum(-1)),
            (batch.kl, (own.exp() * (own - ref)).sum(-1)),
            (batch.values, values),
        ):
            assert_close(found[row, :length], expected, 1e-4)
