"""Partners of a team that learns: changed in an evaluation, fixed, or earlier versions of it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from cory.runs.files import Line
from cory.seeding import uniforms
from tests.algorithms.test_team import returning
from tests.support.building import build, measure
from tests.support.composing import ConfigOf
from tests.support.refusals import refusal


def test_a_fixed_agent_speaks_and_never_learns(team: ConfigOf) -> None:
    text = returning('{"one": float("e" in again.text)}').replace("len(again.text) > 6", "True")
    trainer = build(team(text, "algorithm.fixed={two:start}", "algorithm.learning_rate=1e-2"))
    assert list(trainer.agents) == ["one"]
    first = trainer.step(0)
    assert {t.agent for e in trainer.episodes for t in e.turns if t.role == "two"} == {"two"}
    assert "objective/kl/one" in first and "objective/kl/two" not in first
    start = trainer.actors["two"]
    assert start.frozen and not trainer.actors["one"].frozen  # type: ignore[attr-defined]


def test_partners_are_changed_one_by_one(team: ConfigOf, tmp_path: Path) -> None:
    """Of a trained team: silent, as it came, or speaking for the other, by the same numbers."""
    text = returning("len(first.text)").replace("len(again.text) > 6", "True")
    probes = "evaluation.probes_of_team=[muted,untrained,swapped]"
    config = team(text, probes, "algorithm.learning_rate=1e-2")
    trainer = build(config)
    _, untrained = measure(trainer, config, tmp_path)
    for iteration in range(2):
        trainer.step(iteration)
    found, lines = measure(trainer, config, tmp_path)

    def of(lines: list[Line], who: str, turn: int, key: str = "response") -> list[Any]:
        return [line["turns"][turn][key] for line in lines if line["who"] == who]

    whom = ["team", "muted_one", "untrained_one", "untrained_two", "swapped"]
    assert list(dict.fromkeys(line["who"] for line in lines)) == whom  # two speaks last
    assert found["eval/muted_one/score/team"] == 0 < found["eval/score/team"]
    assert of(lines, "muted_one", 1) == [""] * 8 and all(of(lines, "muted_one", 2))
    assert of(lines, "muted_one", 2, "context") == ["Say "] * 8
    first, start = (of(one, "team", 0) for one in (lines, untrained))
    assert of(lines, "untrained_one", 0) == start != first == of(lines, "untrained_two", 0)
    assert of(lines, "untrained_two", 2) != of(lines, "team", 2)
    swapped: Any = {"one": trainer.actors["two"], "two": trainer.actors["one"]}
    evaluator: Any = replace(trainer.evaluate, actors=swapped, probes={})
    trainer.evaluate = evaluator
    _, others = measure(trainer, config, tmp_path)
    for turn in range(3):
        assert of(lines, "swapped", turn) == of(others, "team", turn)
    assert of(lines, "swapped", 0, "agent") == ["two"] * 8 and of(lines, "swapped", 0) != first


def test_of_a_shared_policy_one_agent_is_changed(team: ConfigOf, tmp_path: Path) -> None:
    text = "async def play(prompt, team):\n    for agent in team:\n        await agent.say('a')\n"
    shared = "algorithm.policies=shared"
    words = ["algorithm.agents=[one,two,three,four]", "algorithm.fixed={three:start}", shared]
    config = team(text + "    return 1\n", *words, "evaluation.probes_of_team=[muted]")
    _, lines = measure(build(config), config, tmp_path)
    turns = [(line["who"], turn) for line in lines for turn in line["turns"]]
    silent = {(who, turn["role"]) for who, turn in turns if turn["response"] == ""}
    assert silent == {(f"muted_{name}", name) for name in ("one", "two", "three")}
    said = refusal(lambda: team(text, shared, "evaluation.probes_of_team=[swapped]"))
    assert "swapped exchanges policies, and here there is one" in said


def test_self_play_against_earlier_versions(team: ConfigOf, tmp_path: Path) -> None:
    text = "async def play(prompt, team):\n" + (
        "    first = await team.one.say(prompt.text)\n"
        "    second = await team.two.say(prompt.text)\n"
        '    return {"one": float("e" in first.text), "two": float("e" in second.text)}\n'
    )
    words = ("algorithm.fixed={two:pool}", "algorithm.pool_every=1", "algorithm.learning_rate=1e-2")
    short = [f"members.two.sampling.{end}_response_tokens=2" for end in ("min", "max")]
    config = team(text, *words, *short, f"run_dir={tmp_path}")
    (tmp_path / "config.yaml").write_text("{}")
    trainer = build(config)
    played, weights = [], {}
    for iteration in range(6):
        pool: Any = trainer.actors["two"]
        version = pool.present
        played.append(version)
        assert version <= iteration
        if version:
            own = pool.version.model.lm.transformer.wte.weight
            assert torch.equal(own, weights[version])
        trainer.step(iteration)
        lengths = {e.turns[1].agent: len(e.turns[1].response_ids) for e in trainer.episodes}
        assert lengths == {"two": 2}
        weights[iteration + 1] = (
            trainer.agents["one"].model.lm.transformer.wte.weight.detach().clone()
        )
    # any version so far, the newest with it
    drawn = [float(uniforms((config.seed, "pool", done), 1)) for done in range(1, 6)]
    assert played == [0, *(int(share * (1 + done)) for done, share in enumerate(drawn, 1))]
    assert len({*played}) > 2
    # evaluations are against the first version, whichever plays
    asked = trainer.evaluate.actors["two"]  # type: ignore[attr-defined]
    assert asked.frozen and asked.own_sampling(config.algorithm.sampling).max_response_tokens == 2
    state = trainer.state_dict()
    again = build(config)
    again.load_state_dict(state)
    assert again.actors["two"].present == trainer.actors["two"].present  # type: ignore[attr-defined]
