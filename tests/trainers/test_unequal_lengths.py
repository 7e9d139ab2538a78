"""Turns of unequal lengths: padding and the order in a batch change no number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from cory.config import Config
from cory.episode import Batch, Turn
from cory.models.ppo_policy import PPOPolicy
from cory.trainers.estimators import Estimate
from cory.trainers.minibatch import Stage
from cory.trainers.ppo import PPOTrainer
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


@pytest.fixture
def trainer(config_of: Callable[..., Config]) -> PPOTrainer:
    return build(
        config_of(
            *("algorithm=ppo", "algorithm.epochs=1", "hardware.microbatch_size=2"),
            *("hardware.rollout_batch_size=3", "algorithm.kl_estimator=k1"),
        ),
        LetterShare(),
    )


@pytest.fixture
def agent(trainer: PPOTrainer) -> PPOPolicy:
    """A policy that is no longer its reference."""
    agent = trainer.agents["agent_0"]
    with torch.no_grad():
        for parameter in agent.model.trainable().values():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return agent


def test_statistics_are_those_of_each_turn_alone(agent: PPOPolicy) -> None:
    batch = agent.annotate(turns("agent_0"))
    for row, turn in enumerate(turns("agent_0")):
        length = len(turn.response_ids)
        assert batch.response_mask[row].tolist() == [True] * length + [False] * (6 - length)
        if turn.absent:
            continue
        ids = torch.tensor([[*turn.context_ids, *turn.response_ids]])
        chosen = torch.tensor(turn.response_ids)[:, None]
        with torch.no_grad():
            for lm, found in (
                (agent.model.lm, batch.logprobs),
                (agent.team.pretrained, batch.ref_logprobs),
            ):
                logp = lm(ids).logits[0, -length - 1 : -1].log_softmax(-1)
                assert_close(found[row, :length], logp.gather(1, chosen).squeeze(1))
            hidden = agent.model.lm.base_model(ids).last_hidden_state[0, -length - 1 : -1]
            assert_close(batch.values[row, :length], agent.model.values(hidden))


def test_an_update_takes_each_rows_own_numbers(trainer: PPOTrainer, agent: PPOPolicy) -> None:
    """The losses of a minibatch by hand, its four microbatches ordered by length.

    The old log-probabilities and values are not the model's own, so that every ratio is another.
    """
    known = agent.annotate(turns("agent_0"))
    mask, stream = known.response_mask, torch.Generator().manual_seed(4)

    def noise(scale: float) -> Tensor:
        return torch.where(mask, scale * torch.randn(mask.shape, generator=stream), 0.0)

    old: Batch = replace(
        known, logprobs=known.logprobs + noise(0.3), values=known.values + noise(0.3)
    )
    advantages, returns = noise(1.0), noise(2.0)
    found = trainer.update(agent, old, Estimate(advantages, returns), Stage(0, 1, 1e-3))
    config, tokens = trainer.config, mask.sum()
    ratio = (known.logprobs - old.logprobs).exp()
    bounded = ratio.clamp(1 - config.clip_range, 1 + config.clip_range)
    policy = torch.maximum(-advantages * ratio, -advantages * bounded)[mask].sum() / tokens
    change = (known.values - old.values).clamp(-config.value_clip_range, config.value_clip_range)
    errors = [(values - returns) ** 2 for values in (known.values, old.values + change)]
    value = torch.maximum(*errors)[mask].sum() / tokens
    assert_close(found["ppo/loss/policy/agent_0"], policy)
    assert_close(found["ppo/loss/value/agent_0"], value)
    assert_close(found["ppo/policy/ratio/agent_0"], ratio[mask].mean())


def test_rows_of_similar_length_are_annotated_together(agent: PPOPolicy) -> None:
    """Passes of three rows: 7 padded positions, where the order of the turns has 16.

    The last token of a row goes into no pass.
    """
    sizes: list[tuple[int, ...]] = []
    note = lambda module, args, kwargs: sizes.append(tuple(kwargs["input_ids"].shape))  # noqa: E731
    agent.model.lm.base_model.register_forward_pre_hook(note, with_kwargs=True)
    agent.annotate(turns("agent_0"))
    assert [rows for rows, _ in sizes] == [3, 3, 2]
    positions = sum(rows * columns for rows, columns in sizes)
    lengths = [c + max(r, 1) - 1 for c, r in zip(CONTEXTS, RESPONSES, strict=True)]
    assert positions - sum(lengths) == 7
