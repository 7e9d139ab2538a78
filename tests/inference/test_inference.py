"""Agents of a finished run are asked again: alone, in their roles, in a debate, by the script."""

from functools import partial
from pathlib import Path

import pytest
import torch

from cory.config import Config
from cory.episode import Turn
from cory.evaluation.responses import EvalRequest
from cory.inference import TrainedTeam, load_team, on_device
from cory.tasks.prompts import PromptsForm
from tests.support.building import built, leave_run
from tests.support.composing import ConfigOf
from tests.support.refusals import refusal


def run_of(config: Config, run_dir: Path) -> tuple[list[str], list[list[str]]]:
    """A finished run of agents that all differ; its evaluation's questions, and what was said."""
    trainer = built(config)
    stream = torch.Generator().manual_seed(1)
    for policy in trainer.agents.values():
        policy.engine.set_weights(
            {
                name: weight.detach() + 0.1 * torch.randn(weight.shape, generator=stream)
                for name, weight in policy.model.trainable().items()
            }
        )
    leave_run(trainer.agents, config, run_dir)
    request = EvalRequest(config.evaluation, config.seed, 0, True)
    trainer.evaluate(request, lambda *_: None)
    said = [[turn["response"] for turn in line["turns"]] for line in request.lines]
    form = trainer.components.task
    asked = [prompt.text for prompt in form.held_out(config.evaluation.prompts, "test")]
    assert isinstance(form, PromptsForm)
    return [text.removeprefix(form.before).removesuffix(form.after) for text in asked], said


@pytest.fixture
def maft(maft: ConfigOf) -> ConfigOf:
    """Settings of two debaters of each kind about six questions."""
    words = [
        *("algorithm.agents=2", "algorithm.evaluation_agents=2", "evaluation.prompts=6", "seed=3")
    ]
    return lambda *more: maft(*words, "hardware.rollout_batch_size=4", *more)


def texts(said: list[list[Turn]]) -> list[list[str]]:
    return [[one.text for one in conversation] for conversation in said]


@pytest.mark.slow
@pytest.mark.parametrize(
    "sharing",
    [[], ["model.sharing=adapters", "model.adapter.targets=null"]],
    ids=["copies", "adapters"],
)
def test_they_say_what_the_run_said_to_the_same_questions(
    maft: ConfigOf, tmp_path: Path, sharing: list[str], monkeypatch
) -> None:
    """The deliberate error: with another seed, or agents in another order, they do not."""
    asked, said = run_of(maft(*sharing), tmp_path)
    team = load_team(tmp_path, "cpu")
    assert team.names == ["generation_0", "generation_1", "critic_0", "critic_1"]
    found = team.ask_all(asked)
    assert texts(found) == said
    assert [one.agent for one in found[0]] == team.names
    assert [(one.role, one.round) for one in found[0]] == [
        *(("debater_0", 0), ("debater_1", 0), ("debater_0", 1), ("debater_1", 1))
    ]
    assert texts(team.ask_all(asked, seed=4)) != said
    assert texts([team.ask(asked[0], greedy=True)]) != said[:1]
    (alone,) = team.ask(asked[0], "critic_1", greedy=True)
    assert (alone.agent, alone.role) == ("critic_1", "solo")
    (base,) = team.ask(asked[0], "base", greedy=True)
    assert base.agent == "base" and base.text != alone.text
    # a random model's answers cannot be read: let something else be the answer
    monkeypatch.setattr(team.form, "read", lambda text: len(text) or None)
    said_of = ((0, "abc"), (1, "ab"), (1, "cd"))
    rounds = [Turn("x", "debater_0", n, "", text, [], [1]) for n, text in said_of]
    assert team.vote(rounds) == "2"
    assert team.vote([Turn("x", "debater_0", 0, "", "", [], [1])]) is None


@pytest.mark.slow
def test_longer_answers_leave_prompts_less_room(team: ConfigOf, tmp_path: Path) -> None:
    """A play hears that its prompt is too long for the limit that was asked for, members alike."""
    play = """
from cory.rollout.scheduler import TooLong
async def play(prompt, team):
    for agent in team:
        try:
            await agent.say(" good" * 40)
        except TooLong:
            await agent.say("a")
"""
    run_of(team(play, "members.one.sampling.top_k=9", f"run_dir={tmp_path}"), tmp_path)
    finished = load_team(tmp_path, "cpu")
    for limit, shown in ((None, " good" * 40), (30, "a")):
        said = finished.ask("the movie", max_tokens=limit)
        assert [turn.context for turn in said] == [shown, shown]


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["copies", "adapters"])
def test_the_reference_of_a_run_that_began_as_another(
    team: ConfigOf, tmp_path: Path, sharing: str
) -> None:
    """With model.reference=init_from, `start` and `base` are the agents that it began as."""
    play = "async def play(prompt, team):\n    await team.one.say(prompt.text)\n    return 0.0\n"
    words = [f"model.sharing={sharing}", "algorithm.sampling.max_response_tokens=20"]
    more, places = dict[str, list[str]](), [tmp_path / "first", tmp_path / "second"]
    more["second"] = [f"init_from={places[0]}", "model.reference=init_from"]
    for place in places:
        run_of(team(play, *words, f"run_dir={place}", *more.get(place.name, [])), place)
    first, second = (load_team(place, "cpu") for place in places)

    def answer(team: TrainedTeam, agent: str) -> str:
        return team.ask("the movie", agent, greedy=True)[0].text

    assert answer(second, "base") == answer(first, "one") != answer(first, "base")
    assert answer(second, "one") != answer(second, "base")


@pytest.mark.slow
def test_what_cannot_be_asked_is_refused(maft: ConfigOf, tmp_path: Path) -> None:
    run_of(maft("evaluation.prompts=1"), tmp_path)
    team = load_team(tmp_path, "cpu")
    for ask, part in (
        (partial(team.ask, ""), "a prompt is empty"),
        (partial(team.ask, "1 and " * 60), "exceed the model's context"),
        (partial(team.ask, "1 and 6?", "agent_7"), "agent=agent_7: "),
        (partial(team.ask, "1 and 6?", max_tokens=0), "max_tokens=0: must be at least 1"),
        (partial(load_team, tmp_path, "gpu"), "device=gpu: this machine has cpu"),
    ):
        assert part in refusal(ask)
    (tmp_path / "agents").rename(tmp_path / "gone")
    assert "the run has no agents" in refusal(lambda: load_team(tmp_path, "cpu"))
    assert "there is no run" in refusal(lambda: load_team(tmp_path / "nowhere"))


def test_a_run_from_elsewhere_does_not_let_code_run(maft: ConfigOf) -> None:
    model = maft().model
    wants = model.replace(remote_code=True)
    said = refusal(lambda: on_device(wants, "cpu", False, "x: model"))
    assert said.startswith("x: model.remote_code=true: ")
    assert on_device(wants, "cpu", True, "x: model").remote_code
    assert not on_device(model, "cpu", False, "x: model").remote_code
    half = model.replace(precision="fp16", compute_precision="fp16")
    assert on_device(half, "cpu", False, "x: model").precision == "fp32"
    assert on_device(half, "cuda", False, "x: model").precision == "fp16"
