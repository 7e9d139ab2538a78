"""Agents that differ: what a block of `members` says reaches its agent, and no other one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cory.config import Config
from cory.episode import Asked, turns_of
from cory.rollout.scheduler import limits_of
from cory.trainers.ppo import PPOTrainer
from tests.support.building import LetterShare, build, measure, updates_of

Settings = Callable[..., Config]
CORY = ("algorithm=cory", "algorithm.epochs=1", "algorithm.swap_every=1")


def weights(trainer: PPOTrainer) -> dict[str, list[torch.Tensor]]:
    agents = trainer.agents.items()
    return {name: [p.detach().clone() for p in a.model.parameters()] for name, a in agents}


def test_each_agent_learns_at_its_own_rate_after_an_exchange_too(config_of: Settings) -> None:
    """Adam's first step moves a weight by its rate times g / (|g| + eps): by almost the rate."""
    words = ("algorithm.learning_rate=1e-3", "members.agent_1.learning_rate=1e-4")
    trainer = build(config_of(*CORY, *words, "algorithm.value_learning_rate=1e-2"), LetterShare())
    before = weights(trainer)
    metrics = trainer.step(0)
    for name, rate in (("agent_0", 1e-3), ("agent_1", 1e-4)):
        named = [key for key, _ in trainer.agents[name].model.named_parameters()]
        moved = {True: 0.0, False: 0.0}  # of the value head, and of all else
        for key, old, new in zip(named, before[name], weights(trainer)[name], strict=True):
            of_head = key.startswith("value_head")
            moved[of_head] = max(moved[of_head], float((new - old).abs().max()))
        assert moved[False] == pytest.approx(rate, rel=1e-2)
        assert moved[True] == pytest.approx(1e-2, rel=1e-2)  # a head's own rate is that of all
        assert metrics[f"ppo/learning_rate/{name}"] == pytest.approx(rate)
    metrics = trainer.step(1)  # the other way round
    assert metrics["role/agent_1"] == 0
    assert metrics["ppo/learning_rate/agent_1"] == pytest.approx(1e-4)


def test_each_agent_has_its_own_kl_coefficient(config_of: Settings) -> None:
    words = ("algorithm.kl_coef=0.5", "members.agent_0.kl_coef=0.0", "algorithm.learning_rate=1e-2")
    trainer = build(config_of(*CORY, *words, "advantages=batch"), LetterShare())
    found = updates_of(trainer, 2)
    for name, coefficient in (("agent_0", 0.0), ("agent_1", 0.5)):
        second = found[name][1]
        mask, batch = second.batch.response_mask, second.batch
        assert batch.kl.abs().sum() > 0.1
        # a response's credit at its last token, and the penalty at each; summed up from the end
        rewards = -coefficient * batch.kl * mask
        rewards[torch.arange(len(mask)), mask.sum(1) - 1] += torch.tensor(second.credits)
        to_come = rewards.flip(1).cumsum(1).flip(1)[mask]
        expected = (to_come - to_come.mean()) / to_come.std()
        assert torch.allclose(second.estimate.advantages[mask], expected, atol=1e-3)


def test_each_agent_samples_as_its_block_says(
    config_of: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["members.agent_1.sampling.top_k=1"]
    words += [f"members.agent_1.sampling.{end}_response_tokens=3" for end in ("min", "max")]
    config = config_of(*CORY, *words, "evaluation.samples=2")
    fresh, plain, own = (
        build(one, LetterShare())
        for one in (config, config_of(*CORY, "evaluation.samples=2"), config)
    )
    plain.step(0)
    own.step(0)
    said = {name: turns_of(own.episodes, name) for name in own.agents}
    assert said["agent_0"] and [t.response_ids for t in said["agent_0"]] == [
        turn.response_ids for turn in turns_of(plain.episodes, "agent_0")
    ]
    assert max(len(turn.response_ids) for turn in said["agent_0"]) == 6
    contexts = [Asked(turn.context, "observer") for turn in said["agent_1"]]
    likeliest = fresh.agents["agent_1"].turns(contexts, 3, None)  # greedily
    assert [t.response_ids for t in said["agent_1"]] == [t.response_ids for t in likeliest]
    # while it is evaluated, too
    limits: dict[str, list[int]] = {name: [] for name in own.agents}
    for name, agent in own.agents.items():
        turns = partial(noting, limits[name], agent.turns)
        monkeypatch.setattr(agent, "turns", turns)
    _, lines = measure(own, config, tmp_path)
    assert {name: {*given} for name, given in limits.items()} == {"agent_0": {6}, "agent_1": {3}}
    for name in own.agents:
        by_prompt: dict[str, set[str]] = {}
        for line in (line for line in lines if line["who"] == name):
            by_prompt.setdefault(line["prompt"], set()).add(line["turns"][0]["response"])
        assert all(len(both) == 1 for both in by_prompt.values()) == (name == "agent_1")


def noting(given: list[int], turns: Callable[..., Any], asked: Any, limit: int, how: Any) -> Any:
    given.append(limit)
    return turns(asked, limit, how)


def test_a_loss_by_a_constant_divides_by_the_agents_own_limit(config_of: Settings) -> None:
    words = [f"members.agent_1.sampling.{end}_response_tokens=3" for end in ("min", "max")]
    trainer = build(config_of(*CORY, *words, "algorithm.loss_average=constant"), LetterShare())
    found = updates_of(trainer, 1)
    for name, limit in (("agent_0", 6), ("agent_1", 3)):
        update = found[name][0]
        chosen = torch.arange(8)
        objective = trainer._objective(trainer.agents[name], update.batch, update.estimate, chosen)
        average = objective.average
        assert torch.allclose(average.weights / average.whole, torch.full((8,), 1 / limit / 8))


def test_a_range_of_its_own_is_drawn_from_after_the_others(config_of: Settings) -> None:
    config = config_of(
        *CORY, "members.agent_0.kl_coef=1", "members.agent_1.sampling.min_response_tokens=2"
    )
    actors: Any = {
        name: SimpleNamespace(sampling=config.own_sampling(name)) for name in ("agent_0", "agent_1")
    }
    stream = np.random.default_rng(1)
    drawn = [limits_of(actors, config.algorithm.sampling, stream) for _ in range(200)]
    # of agent_0's block, which says nothing of lengths, the run's one limit stays
    assert {frozenset(one) for one in drawn} == {frozenset({"agent_1"})}
    assert {one["agent_1"] for one in drawn} == {2, 3, 4, 5, 6}
    assert limits_of(actors, config.algorithm.sampling) == {"agent_1": 6}


def test_what_changes_the_distribution_is_said_of_its_agent(
    config_of: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    build(config_of(*CORY, "members.agent_1.sampling.top_p=0.5"), LetterShare()).step(0)
    printed = "".join(capsys.readouterr()).splitlines()
    said = [line for line in printed if "distribution" in line]
    assert len(said) == 1 and "note: agent_1 samples" in said[0]
    assert "sampling.top_p=0.5" in said[0]
