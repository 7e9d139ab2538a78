"""Agents leave as folders that other programs load, and runs start from them."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cory.config import Config, ConfigError
from cory.episode import Asked
from cory.models.bundle import ModelBundle
from cory.models.policy import PPOPolicy
from cory.runs.export import start_from
from tests.support.building import LetterShare, build, leave_run
from tests.support.commands import metrics
from tests.support.composing import ConfigOf
from tests.support.refusals import refusal

CONTEXT = "the movie was"
FAR = ["hardware.keep_whole_below=0", "algorithm.learning_rate=3e-2"]


def trained(config: Config) -> dict[str, PPOPolicy]:
    trainer = build(config, reward=LetterShare())
    trainer.step(0)
    return trainer.agents


def greedy(agent: PPOPolicy) -> list[int]:
    """What the agent says inside the run."""
    (turn,) = agent.turns([Asked(CONTEXT, "solo")], 10, None)
    return turn.response_ids


@pytest.mark.parametrize("stage", [0, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("sharing", ["copies", "adapters"])
def test_a_run_starts_from_the_agents_of_another(config_of, tmp_path, sharing, stage) -> None:
    settings = [f"model.sharing={sharing}", f"hardware.zero_stage={stage}", *FAR]
    config = config_of(*settings)
    theirs = trained(config)
    leave_run(theirs, config, tmp_path)
    ours = build(config_of(*settings, "seed=7", f"init_from={tmp_path}"), reward=LetterShare())
    for name, agent in ours.agents.items():
        with agent.engine.whole(), theirs[name].engine.whole():
            weights = agent.model.trainable()
            assert sum(weight.numel() for weight in weights.values()) > 1000
            for key, parameter in weights.items():
                assert torch.equal(parameter, theirs[name].model.trainable()[key])
    reference = ours.agents["agent_0"].bundle.pretrained
    pristine = ModelBundle(config.model, torch.device("cpu")).pretrained
    with ours.agents["agent_0"].engine.whole():
        weights = dict(reference.named_parameters())
        for key, parameter in pristine.named_parameters():
            known = weights.get(key)
            assert known is None or torch.equal(known, parameter)  # adapters rename layers
    assert ours.step(0)["objective/kl_k3/agent_0"] > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("stage", [0, 3])
@pytest.mark.parametrize("sharing", ["copies", "adapters"])
def test_the_kl_may_be_to_what_each_agent_began_as(config_of, tmp_path, sharing, stage) -> None:
    settings = [f"model.sharing={sharing}", *FAR]
    leave_run(trained(config_of(*settings)), config_of(*settings), tmp_path)
    settings += [f"init_from={tmp_path}", f"hardware.zero_stage={stage}", "seed=7"]
    ours = build(config_of(*settings, "model.reference=init_from"), reward=LetterShare())
    before = {name: greedy(agent) for name, agent in ours.agents.items()}
    metrics = ours.step(0)
    assert all(abs(metrics[f"objective/kl/{name}"]) < 1e-4 for name in ours.agents)
    for name, agent in ours.agents.items():  # it stays where the agent was
        assert greedy(agent.reference(name)) == before[name] != greedy(agent)
    assert before["agent_0"] != before["agent_1"]
    later = ours.step(1)
    assert all(later[f"objective/kl_k3/{name}"] > 1e-3 for name in ours.agents)


WITHOUT_VALUES = ["advantages=group", "algorithm.samples_per_prompt=4"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("theirs", "ours"), [(WITHOUT_VALUES, []), ([], WITHOUT_VALUES)], ids=["to head", "to none"]
)
def test_a_run_starts_from_agents_with_and_without_value_heads(
    config_of: ConfigOf, tmp_path: Path, capsys, theirs: list[str], ours: list[str]
) -> None:
    config = config_of(*theirs)
    before = trained(config)
    leave_run(before, config, tmp_path)
    agent = tmp_path / "agents" / "agent_0"
    assert (agent / "value_head.safetensors").exists() == (not theirs)
    fresh = build(config_of(*ours, "seed=7"), reward=LetterShare()).agents
    started = build(config_of(*ours, "seed=7", f"init_from={tmp_path}"), reward=LetterShare())
    said = capsys.readouterr().err
    for name, agent in started.agents.items():
        weights = agent.model.lm.state_dict()
        known = before[name].model.lm.state_dict()
        assert all(torch.equal(weights[key], known[key]) for key in weights)
        if ours:
            assert agent.model.value_head is None
            continue
        source = fresh if theirs else before  # where there was none, the new one stays
        assert torch.equal(agent.model.value_head.weight, source[name].model.value_head.weight)
    notes = [line for line in said.splitlines() if "has no value heads" in line]
    assert len(notes) == (2 if theirs and not ours else 0)
    assert said.count("the KL is to") == said.count("(model.reference=init_from") == 1
    assert started.step(0)["objective/kl_k3/agent_0"] > 0


@pytest.mark.slow
def test_one_agent_serves_all_and_several_serve_as_many(config_of, tmp_path) -> None:
    single = config_of("algorithm=ppo", "algorithm.learning_rate=3e-2")
    alone, pair = tmp_path / "alone", tmp_path / "pair"
    for folder, config in ((alone, single), (pair, config_of())):
        folder.mkdir()
        leave_run(trained(config), config, folder)
    agents = build(config_of(f"init_from={alone}"), reward=LetterShare()).agents
    first, second = (agent.model.lm.state_dict() for agent in agents.values())
    assert all(torch.equal(first[key], second[key]) for key in first)
    with pytest.raises(ConfigError, match="has 2 agents, this run 3"):
        build(config_of("algorithm.agents=3", f"init_from={pair}"), reward=LetterShare())


def test_what_cannot_be_started_from_is_refused(config_of: ConfigOf, tmp_path: Path) -> None:
    def refused(model: Any, *overrides: str) -> str:
        (tmp_path / "config.yaml").write_text(json.dumps({"model": model}))
        agent: Any = SimpleNamespace(name="agent_0")
        return refusal(lambda: start_from(tmp_path, [agent], config_of(*overrides), "init_from"))

    path = config_of().model.path
    same = {"path": path, "sharing": "copies"}
    (tmp_path / "agents" / "agent_0").mkdir(parents=True)
    assert refused(same, "model.sharing=adapters").endswith(
        "was trained with model.sharing=copies, not adapters"
    )
    adapted = {"path": path, "sharing": "adapters", "adapter": {"rank": 16, "alpha": 8.0}}
    assert refused(adapted, "model.sharing=adapters").endswith(
        "was trained with model.adapter.alpha=8.0, not 32.0"
    )
    assert "was trained with model.path=elsewhere" in refused({**same, "path": "elsewhere"})


@pytest.mark.slow
def test_a_finished_run_is_evaluated_without_training(run, tmp_path) -> None:
    assert run("run_dir=first", "algorithm.learning_rate=1e-2").wait() == 0
    assert run("run_dir=second", "init_from=first", "algorithm.iterations=0").wait() == 0
    (line,) = metrics(tmp_path / "second")
    last = metrics(tmp_path / "first")[-1]
    assert line["eval/score/agent_0"] == last["eval/score/agent_0"]
    assert set(line) == {"iteration", "eval/score/agent_0"}
    record = json.loads((tmp_path / "second" / "record.json").read_text())
    assert record["final"] == {"eval/score/agent_0": last["eval/score/agent_0"]}
