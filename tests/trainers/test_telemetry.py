"""What is logged about collapse and about what agents take from each other."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cory.episode import Batch, Episode, Prompt, Turn
from cory.functional.logprobs import distinct_share
from cory.trainers.estimates import agent_metrics, copied_metrics
from tests.support.building import LetterShare, build
from tests.support.composing import ConfigOf

EOS = 0


def test_sampler_gap_by_hand() -> None:
    """Two responses of 60 and 41 tokens; the sampler is off by 0, 1, ... 99 and -200 hundredths."""
    lengths, longest = (60, 41), 60
    turns = [Turn("agent_0", "solo", 0, "", "", [9], [1] * n, 0.5, credit=0.5) for n in lengths]
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    logprobs = -torch.arange(2 * longest).float().view(2, longest).div(10) * mask
    zeros = torch.zeros(2, longest)
    batch = Batch(
        torch.ones(2, longest + 1, dtype=torch.long),
        torch.cat([torch.ones(2, 1, dtype=torch.bool), mask], 1),
        mask,
        torch.zeros(2),
        logprobs,
        *[zeros] * 4,
    )
    off = torch.tensor([*range(100), -200]) / 100
    texts, bundle = SimpleNamespace(private=False), SimpleNamespace(stops={EOS})
    agent: Any = SimpleNamespace(name="agent_0", kl_coef=0.0, bundle=bundle, texts=texts)
    sampled = iter((logprobs[mask] + off).tolist())
    for turn in turns:
        turn.sampler_logprobs = [next(sampled) for _ in turn.response_ids]
    metrics = agent_metrics(agent, turns, batch)
    assert metrics["objective/sampler_gap/agent_0"] == pytest.approx(off.mean().item(), abs=1e-6)
    # of 101 sizes, the second largest and the largest
    assert metrics["objective/sampler_gap_p99/agent_0"] == pytest.approx(0.99, abs=1e-5)
    assert metrics["objective/sampler_gap_max/agent_0"] == pytest.approx(2.0, abs=1e-5)
    for turn, score in zip(turns, (3, 1), strict=True):  # a reward may give whole numbers
        turn.score = score
    assert agent_metrics(agent, turns, batch)["objective/score_std/agent_0"] == 1


def test_a_step_logs_them_by_agent_and_by_role(config_of: ConfigOf) -> None:
    trainer = build(config_of("algorithm=cory", "algorithm.swap_every=1"), LetterShare())
    eos = trainer.agents["agent_0"].bundle.tokenizer.eos_token_id
    trainer.step(0)
    metrics = trainer.step(1)  # with the roles exchanged
    assert metrics["role/agent_1"] == 0
    texts = []
    for place, (agent, role) in enumerate((("agent_1", "pioneer"), ("agent_0", "observer"))):
        turns = [episode.turns[place] for episode in trainer.episodes]
        assert {turn.agent for turn in turns} == {agent}
        ids = [turn.response_ids for turn in turns]
        texts.append([row[:-1] if row[-1] == eos else row for row in ids])
        expected = {
            "rollout/truncated_share": sum(row[-1] != eos for row in ids) / 8,
            "rollout/distinct_1": distinct_share(texts[place], 1),
            "rollout/distinct_2": distinct_share(texts[place], 2),
        }
        for name, value in expected.items():
            assert metrics[f"{name}/{agent}"] == metrics[f"{name}/{role}"] == pytest.approx(value)
        entropy = metrics[f"objective/entropy/{agent}"]
        assert metrics[f"objective/entropy/{role}"] == entropy > 0
    gain = metrics["objective/score/observer"] - metrics["objective/score/pioneer"]
    assert metrics["transfer/gain/observer"] == pytest.approx(gain)


def test_copied_is_what_others_said_and_was_shown() -> None:
    def turn(agent: str, response: str, context: str) -> Turn:
        return Turn(agent, f"role_{agent}", 0, context, response, [0], [1])

    first = turn("a", " one two ", "q")
    episodes = [
        Episode(Prompt("0", "q"), [first, turn("b", "one two three", "q one two"), first]),
        Episode(Prompt("1", "q"), [first, turn("b", "one two", "q")]),  # not shown
        Episode(
            Prompt("2", "q"), [first, turn("b", "three", "q one two"), turn("a", "x", "one two")]
        ),
    ]
    found = copied_metrics(episodes)  # a has heard nobody but itself
    assert found == {"rollout/copied_1/b": (2 / 3 + 0) / 2, "rollout/copied_2/b": 1 / 2}
    # a debater with a policy for each of its turns, and a member of a team with two roles
    one, other = turn("turn_1", "one two", "q"), turn("turn_2", "one two", "q one two")
    one.role = other.role = "debater_0"
    draft, final = turn("a", "one two", "q"), turn("a", "one two", "q one two")
    draft.member, final.member, final.role = "a", "a", "final"
    own = [Episode(Prompt("3", "q"), [one, other]), Episode(Prompt("4", "q"), [draft, final])]
    assert copied_metrics(own) == {}
