"""A critic that sees all agents' answers: which it is shown, and what is computed from them."""

import pytest
import torch
from torch import Tensor

from cory.config import Config, ConfigError
from cory.episode import Batch, Context, Turn, turns_of
from cory.models.tokenization import Texts
from cory.trainers.estimates import Estimate, critic_batch, critic_rows
from cory.trainers.ppo import PPOTrainer
from cory.trainers.steps import Stage
from tests.support.building import LetterShare, build
from tests.support.close import assert_close
from tests.support.composing import ConfigOf

CENTRAL = ["algorithm.critic=central", "algorithm.critic_template='{prompt}~|~{said}~|~{role}'"]
DEBATE = [
    *("algorithm=maporl", "algorithm.turns=2", "algorithm.param_sharing=per_agent"),
    *("algorithm.evaluation_turns=2", "algorithm.minibatch_size=16"),
    *("algorithm.guards.boxed=false", "algorithm.guards.min_tokens=null"),
]
PLAY = """
import asyncio

async def play(prompt, team):
    await team.one.say(prompt.text, "first")
    beside = [team.one.say(prompt.text, "left"), team.two.say(prompt.text, "right")]
    await asyncio.gather(*beside)
    await team.two.say(prompt.text, "last")
    return {"one": 1.0, "two": 0.0}
"""


def rolled_out(config: Config) -> PPOTrainer:
    trainer = build(config, LetterShare())
    trainer.step(0)
    return trainer


def contexts(trainer: PPOTrainer, name: str) -> list[str]:
    """What an agent's critic reads, turn by turn, before it becomes tokens of the random model."""
    agent, read = trainer.agents[name], list[str]()
    agent.bundle.context_length = 1000  # a random model's text has many tokens

    class Noted(Texts):
        def context_ids(self, context: Context) -> list[int]:
            read.append(str(context))
            return super().context_ids(context)

    texts, agent.texts = agent.texts, Noted(agent.bundle.tokenizer, "")
    rows, agent.texts = critic_rows(agent, trainer.episodes), texts
    turns = turns_of(trainer.episodes, name)
    assert [row.response_ids for row in rows] == [turn.response_ids for turn in turns]
    assert [row.context_ids for row in rows] == [texts.context_ids(text) for text in read]
    return read


def shown(trainer: PPOTrainer, number: int) -> dict[str, str]:
    """For each turn of an episode by role and round, what its critic reads of others."""
    episode, found = trainer.episodes[number], {}
    for name in trainer.agents:
        read = iter(contexts(trainer, name))
        for one in trainer.episodes:
            for turn in turns_of([one], name):
                prompt, said, role = next(read).split("~|~")
                assert (prompt, role) == (one.prompt.text, turn.role)
                if one is episode:
                    found[f"{role}/{turn.round}"] = said
    return found


def said(*turns: Turn) -> str:
    return "\n".join(f"{turn.role}: {turn.text.strip()}" for turn in turns)


def test_what_an_observer_says_is_not_shown_to_the_pioneers_critic(config_of: ConfigOf) -> None:
    trainer = rolled_out(config_of("algorithm=cory", "algorithm.agents=3", *CENTRAL))
    pioneer, second, third = trainer.episodes[1].turns
    assert shown(trainer, 1) == {
        "pioneer/0": "",
        f"{second.role}/1": said(pioneer),
        f"{third.role}/2": said(pioneer, second),
    }


def test_in_a_debate_answers_of_the_same_round_are_shown(questions: ConfigOf) -> None:
    trainer = rolled_out(questions(*DEBATE, *CENTRAL))
    a, b, c, d = trainer.episodes[0].turns  # two debaters, two rounds
    assert shown(trainer, 0) == {
        "debater_0/0": said(b),
        "debater_1/0": said(a),
        "debater_0/1": said(a, b, d),
        "debater_1/1": said(a, b, c),
    }


def test_of_a_team_what_was_asked_before_a_turn_was_said(team: ConfigOf) -> None:
    trainer = rolled_out(team(PLAY, *CENTRAL))
    first, left, right, last = trainer.episodes[0].turns
    assert [turn.role for turn in (first, left, right, last)] == ["first", "left", "right", "last"]
    assert shown(trainer, 0) == {
        "first/0": "",
        "left/1": said(first, right),
        "right/0": said(first, left),
        "last/1": said(first, left, right),
    }


def annotated(trainer: PPOTrainer, name: str) -> Batch:
    agent = trainer.agents[name]
    turns = turns_of(trainer.episodes, name)
    return agent.annotate(turns, critic_batch(agent, trainer.episodes, len(turns)))


def by_hand(trainer: PPOTrainer, name: str) -> Tensor:
    """Values of each turn's tokens, from a pass over its row alone."""
    agent = trainer.agents[name]
    lm, head = agent.model.lm, agent.model.value_head
    assert head is not None
    batch = annotated(trainer, name)
    values = torch.zeros_like(batch.logprobs)
    for number, row in enumerate(critic_rows(agent, trainer.episodes)):
        ids = torch.tensor([[*row.context_ids, *row.response_ids]])
        states = lm.base_model(input_ids=ids).last_hidden_state[0, len(row.context_ids) - 1 : -1]
        values[number, : len(row.response_ids)] = head(states)
    return values


def test_values_are_those_of_a_pass_over_what_the_critic_reads(questions: ConfigOf) -> None:
    words = ["hardware.rollout_batch_size=3", "algorithm.learning_rate=1e-2"]
    trainer = rolled_out(questions(*DEBATE, *CENTRAL, *words))
    with torch.no_grad():
        expected = by_hand(trainer, "agent_1")
    batch, agent = annotated(trainer, "agent_1"), trainer.agents["agent_1"]
    assert batch.values is not None
    assert_close(batch.values, expected, 1e-4)
    alone = agent.annotate(turns_of(trainer.episodes, "agent_1"))
    assert alone.critic is None and alone.values is not None
    assert (alone.values - batch.values).abs().max() > 1e-3
    assert_close(alone.logprobs, batch.logprobs)


@pytest.mark.parametrize("detached", [False, True])
def test_the_gradient_of_the_value_loss(config_of: ConfigOf, detached: bool) -> None:
    """In the update itself, whose norm is compared with that of the loss by hand."""
    words = ["algorithm.kl_coef=0", "hardware.microbatch_size=2"]
    words += [f"model.value_detached={detached}".lower()]
    trainer = rolled_out(config_of("algorithm=cory", *CENTRAL, *words))
    agent, batch = trainer.agents["agent_1"], annotated(trainer, "agent_1")
    assert batch.values is not None
    estimate = Estimate(torch.zeros_like(batch.logprobs), batch.values + 0.1 * batch.response_mask)
    agent.engine.reset_optimizer()
    error = (by_hand(trainer, "agent_1") - estimate.returns)[batch.response_mask]  # type: ignore[operator]
    weights = agent.engine.trainable
    gradients = torch.autograd.grad(0.1 * (error**2).mean(), [*weights.values()], allow_unused=True)
    squares = {
        name: float((one**2).sum())
        for name, one in zip(weights, gradients, strict=True)
        if one is not None and (not detached or name.startswith("value_head"))
    }
    found = trainer.update(agent, batch, estimate, Stage(0, 1, 1e-12))
    norm = sum(squares.values()) ** 0.5
    assert_close(found["ppo/gradient_norm/agent_1"], norm, 1e-3)
    assert (len(squares) == 2) == detached


def test_the_earliest_utterances_are_left_out_where_all_have_no_room(config_of: ConfigOf) -> None:
    trainer = rolled_out(config_of("algorithm=cory", "algorithm.agents=3", *CENTRAL))
    agent = trainer.agents["agent_2"]
    agent.bundle.context_length = 1000
    whole = critic_rows(agent, trainer.episodes)
    most = max(row.tokens for row in whole)
    agent.bundle.context_length = most - 1
    rows = critic_rows(agent, trainer.episodes)
    cut = [number for number, row in enumerate(whole) if row.tokens == most]
    assert [number for number, row in enumerate(rows) if row != whole[number]] == cut
    _, second, _ = trainer.episodes[cut[0]].turns
    texts = agent.texts
    ids = texts.context_ids(f"{trainer.episodes[cut[0]].prompt.text}~|~{said(second)}~|~observer_2")
    assert rows[cut[0]].context_ids == ids
    agent.bundle.context_length = 8
    with pytest.raises(ConfigError, match=r"algorithm\.critic=central: prompt .* exceed"):
        critic_rows(agent, trainer.episodes)
