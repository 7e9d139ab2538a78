"""Agents that differ: what a block of `members` says reaches its agent, and no other one."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cory.episode import Asked, turns_of
from cory.inference import load_team
from cory.memory import parts_of
from cory.rollout.scheduler import RollOut
from cory.runtime.worker import build_components
from cory.trainers.ppo import PPOTrainer
from tests.support.building import LetterShare, build, built, leave_run, measure, updates_of
from tests.support.chat_models import save_chat_model
from tests.support.composing import ConfigOf
from tests.support.refusals import refusal
from tests.support.supervising import SFT

CORY = ("algorithm=cory", "algorithm.epochs=1", "algorithm.swap_every=1")


def weights(trainer: PPOTrainer) -> dict[str, list[torch.Tensor]]:
    agents = trainer.agents.items()
    return {name: [p.detach().clone() for p in a.model.parameters()] for name, a in agents}


def test_each_agent_learns_at_its_own_rate_after_an_exchange_too(config_of: ConfigOf) -> None:
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


def test_each_agent_has_its_own_kl_coefficient(config_of: ConfigOf) -> None:
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


def test_each_agent_samples_as_its_block_says(config_of, tmp_path, monkeypatch) -> None:
    words = ["members.agent_1.sampling.top_k=1", "members.agent_1.sampling.max_response_tokens=3"]
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


def test_a_loss_by_a_constant_divides_by_the_agents_own_limit(config_of: ConfigOf) -> None:
    words = [f"members.agent_1.sampling.{end}_response_tokens=3" for end in ("min", "max")]
    trainer = build(config_of(*CORY, *words, "algorithm.loss_average=constant"), LetterShare())
    found = updates_of(trainer, 1)
    for name, limit in (("agent_0", 6), ("agent_1", 3)):
        update = found[name][0]
        chosen = torch.arange(8)
        objective = trainer._objective(trainer.agents[name], update.batch, update.estimate, chosen)
        average = objective.average
        assert torch.allclose(average.weights / average.whole, torch.full((8,), 1 / limit / 8))


def test_a_range_of_its_own_is_drawn_from_after_the_others(config_of: ConfigOf) -> None:
    config = config_of(
        *CORY, "members.agent_0.kl_coef=1", "members.agent_1.sampling.min_response_tokens=2"
    )
    actors: Any = {
        name: SimpleNamespace(sampling=config.own_sampling(name)) for name in ("agent_0", "agent_1")
    }
    stream = np.random.default_rng(1)
    drawn = [RollOut.of(actors, config.algorithm.sampling, (), stream) for _ in range(2000)]
    # of agent_0's block, which says nothing of lengths, the run's one limit stays
    assert {(one.limit, *one.limits) for one in drawn} == {(6, "agent_1")}
    counts = Counter(one.limits["agent_1"] for one in drawn)  # uniform, both ends included
    assert sorted(counts) == [2, 3, 4, 5, 6] and min(counts.values()) > 300
    greedy = RollOut.of(actors, config.algorithm.sampling, (), greedy=True)
    assert (greedy.limits, greedy.sampling) == ({"agent_1": 6}, None)


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Words for a pair: a small Qwen-shaped chat model, and a Llama-shaped one with a system."""
    folder = tmp_path_factory.mktemp("chats")
    qwen, llama = (save_chat_model(family, folder / family) for family in ("qwen3", "llama3"))
    return [
        *(f"model.path={qwen}", "model.chat=true", f"members.agent_1.model.path={llama}"),
        "members.agent_1.model.system='Be brief.'",
    ]


def test_two_models_read_each_others_texts(config_of: ConfigOf, chats: list[str]) -> None:
    trainer = build(config_of(*CORY, *chats, "members.agent_1.learning_rate=1e-4"), LetterShare())
    first, second = trainer.agents.values()
    assert [a.bundle.config.path.rpartition("/")[2] for a in (first, second)] == ["qwen3", "llama3"]
    for iteration, (pioneer, observer) in enumerate(((first, second), (second, first))):
        metrics = trainer.step(iteration)
        for episode in trainer.episodes:
            said, heard = episode.turns
            assert (said.agent, heard.agent) == (pioneer.name, observer.name)
            assert said.response in heard.context and heard.credit == said.credit
            for agent, turn in ((pioneer, said), (observer, heard)):
                ids = agent.bundle.tokenizer(turn.context, add_special_tokens=False)["input_ids"]
                assert turn.context_ids == ids  # each reads with its own tokenizer
                assert ("Be brief." in turn.context) == (agent is second)
        if iteration == 0:  # each is compared with the model that it started from
            assert all(abs(metrics[f"objective/kl/{a.name}"]) < 1e-3 for a in (first, second))


def test_agents_of_one_model_may_have_systems_of_their_own(config_of, chats) -> None:
    own = ("model.system='Be kind.'", "members.agent_1.model.system='Be brief.'")
    trainer = build(config_of(*CORY, *chats[:2], *own), LetterShare())
    assert [*trainer.components.bundles] == ["model"]
    trainer.step(0)
    for said in (turn for episode in trainer.episodes for turn in episode.turns):
        first = said.agent == "agent_0"
        assert ("Be kind." in said.context, "Be brief." in said.context) == (first, not first)
    long = f"members.agent_1.model.system='{'Be brief. ' * 300}'"
    config = config_of(*CORY, *chats[:2], own[0], long)
    assert "exceed the context of model=" in refusal(lambda: build_components(config))


@pytest.mark.slow
def test_adapters_of_two_ranks_lie_on_one_base(config_of: ConfigOf) -> None:
    words = (
        "model.sharing=adapters",
        "model.adapter.rank=4",
        "members.agent_1.model.adapter.rank=2",
    )
    config = config_of(*CORY, *words)
    trainer = build(config, LetterShare())
    assert [*trainer.components.bundles] == ["model"]
    assert trainer.agents["agent_0"].model.lm is trainer.agents["agent_1"].model.lm
    for name, rank in (("agent_0", 4), ("agent_1", 2)):
        trained = trainer.agents[name].model.trainable()
        assert {len(w) for key, w in trained.items() if "lora_A" in key} == {rank}
    trainer.step(0)
    three = [*words[:1], "model.adapter.rank=3"]
    moments = [
        next(part.bytes for part in parts_of(one) if part.what == "Adam's two moments")
        for one in (config, config_of(*CORY, *three), config_of(*CORY, *words[:2]))
    ]
    assert moments[0] == moments[1] < moments[2]


@pytest.mark.slow
def test_a_pair_is_asked_and_gone_on_with_as_it_was(config_of, chats, tmp_path) -> None:
    words = [*CORY, *chats, "algorithm.learning_rate=1e-2", "members.agent_0.sampling.top_k=1"]
    config = config_of(*words, f"run_dir={tmp_path}")
    trainer = build(config, LetterShare())
    trainer.step(0)
    trainer.step(1)  # back to the first roles
    leave_run(trainer.agents, config, tmp_path)
    asked, team = ["It was", "Not"], load_team(tmp_path, "cpu")
    for name, agent in trainer.agents.items():
        own = agent.turns([Asked(text, "solo") for text in asked], 6, None)
        assert [[t.text for t in turns] for turns in team.ask_all(asked, name, greedy=True)] == [
            [turn.text] for turn in own
        ]
    sampled = team.ask_all(asked, "agent_0", seed=5)  # the likeliest, by its block
    assert [t[0].text for t in sampled] == [t[0].text for t in team.ask_all(asked, "agent_0", True)]
    both = team.ask(asked[0])
    assert [turn.agent for turn in both] == ["agent_0", "agent_1"]
    assert both[0].text in both[1].context and "Be brief." in both[1].context
    later = build(config_of(*words, f"init_from={tmp_path}"), LetterShare())
    for name, agent in later.agents.items():
        theirs = trainer.agents[name].model.state_dict()
        assert all(torch.equal(own, theirs[key]) for key, own in agent.model.state_dict().items())
    other = [word for word in words if not word.startswith("members.agent_1.model.path")]
    said = refusal(lambda: build(config_of(*other, f"init_from={tmp_path}"), LetterShare()))
    assert "was trained with members.agent_1.model.path=" in said


@pytest.mark.slow
def test_finetuned_agents_may_differ(maft: ConfigOf, chats: list[str]) -> None:
    own = [word.replace("agent_1", "critic_0") for word in chats[2:3]]
    config = maft(
        *("algorithm.agents=2", "algorithm.evaluation_agents=2", "algorithm.summary=false"),
        *(*own, "members.critic_0.learning_rate=3e-3", "algorithm.later_learning_rate=1e-9"),
        *(f"members.critic_0.model.{key}precision=bf16" for key in ("", "compute_")),
        "members.generation_1.learning_rate=2e-3",
    )
    trainer = built(config)
    assert [*trainer.components.bundles] == ["model", "members.critic_0.model"]
    shown = [name for name, policy in trainer.agents.items() if "llama3" in policy.bundle.said]
    assert shown == ["critic_0"]
    held = {name: policy.engine.precision for name, policy in trainer.agents.items()}
    assert [name for name in held if held[name] == "bf16"] == ["critic_0"]
    rates = {
        name: [trainer.finetune_plan(name, iteration).learning_rate for iteration in (0, 1)]
        for name in trainer.agents
    }
    algorithm = config.algorithm
    assert rates == {
        "generation_0": [algorithm.learning_rate, 1e-9],
        "generation_1": [2e-3, 2e-3],
        "critic_0": [3e-3, 3e-3],
        "critic_1": [algorithm.critic_learning_rate, 1e-9],
    }
    metrics = trainer.step(0)
    assert metrics["supervised/examples/critic_0"] >= 0


@pytest.mark.slow
def test_the_best_debates_are_those_of_each_agents_own_start(questions, chats) -> None:
    config = questions(
        *(*SFT, "algorithm.param_sharing=per_turn_agent", "algorithm.turns=2"),
        "algorithm.train_turns=null",
        *(chats[2], "members.agent_1.sampling.top_k=1", "members.agent_1.learning_rate=1e-3"),
    )
    trainer = built(config)
    collected = trainer.collect(0)
    for turns in (episode.turns for episode in collected.episodes):
        assert [t.agent for t in turns] == ["reference", "agent_1_reference"] * 2
    actors = trainer.collect.actors
    second = actors["agent_1_reference"]
    assert second.frozen and "llama3" in second.bundle.said and second.sampling.top_k == 1
    assert "llama3" not in actors["reference"].bundle.said and actors["reference"].sampling is None
    metrics = trainer.step(1)
    rates = {name: metrics[f"supervised/learning_rate/{name}"] for name in trainer.agents}
    own = config.algorithm.learning_rate
    assert list(rates.values()) == pytest.approx([own, own, 1e-3, 1e-3])


def test_a_prompt_fits_where_its_agents_own_answer_does(config_of: ConfigOf) -> None:
    words = [f"members.agent_1.sampling.{end}_response_tokens=2" for end in ("min", "max")]
    trainer = build(config_of(*CORY, *words), LetterShare())
    first, second = trainer.agents.values()
    room = first.bundle.context_length
    context = "a" * (room - 4)
    tokens = first.texts.tokens(context)
    fits = [
        agent.fits(context, room - tokens + more) for more in (0, 1) for agent in (first, second)
    ]
    assert fits == [True, True, False, True]


PLAY = """
async def play(prompt, team):
    said = [await team[name].say(prompt.text) for name in ("one", "two", "three")]
    return {"one": float(len(said[0].text))}
"""


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["copies", "adapters"])
def test_fixed_agents_may_share_a_model_that_nobody_trains(
    config_of: ConfigOf, team: ConfigOf, tmp_path: Path, sharing: str
) -> None:
    """One is of another run, one is the model as it came."""
    own = ("path=asset:tiny_2x", f"sharing={sharing}")
    config = config_of(
        "algorithm=ppo", "algorithm.learning_rate=1e-1", *(f"model.{w}" for w in own)
    )
    other, run = build(config, LetterShare()), tmp_path / "run"
    run.mkdir()
    other.step(0)
    leave_run(other.agents, config, run)
    words = [
        *("algorithm.agents=[one,two,three]", f"algorithm.fixed={{two: '{run}', three: start}}"),
        *(f"members.{name}.model.{word}" for name in ("two", "three") for word in own),
    ]
    three = build(team(PLAY, *words, f"run_dir={tmp_path}"))
    three.step(0)
    leave_run(three.agents, three.components.config, tmp_path)
    trained = other.agents["agent_0"]
    first, second = (
        actor.turns([Asked("It was", "solo")], 6, None)[0].response_ids
        for actor in (trained, trained.reference("start"))
    )
    assert first != second
    for actors in (three.actors, load_team(tmp_path, "cpu").actors):
        for name, expected in (("two", first), ("three", second), ("two", first)):
            (turn,) = actors[name].turns([Asked("It was", "solo")], 6, None)
            assert turn is not None and turn.response_ids == expected
    held = [part.what for part in parts_of(three.components.config)]
    counts = held.count("Adam's two moments"), held.count("reference")
    assert counts == (1, 2 if sharing == "copies" else 1)
    elsewhere = team(PLAY, *words, "members.two.model.path=asset:tiny")
    assert "was trained with members.two.model.path" in refusal(lambda: build(elsewhere))
