"""`algorithm=team`: an episode that is a function of the user's."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch import Tensor

from cory.episode import Batch
from cory.trainers.estimates import Estimate
from tests.support.building import LetterShare, build, measure, steps, updates_of
from tests.support.composing import ConfigOf
from tests.support.refusals import refusal

CORY = """
async def play(prompt, team):
    agents = list(team)
    if team.iteration // 2 % 2:
        agents.reverse()
    pioneer, observer = agents
    answer = await pioneer.say(prompt.text, "pioneer")
    await observer.say(f"{prompt.text}{answer.text}: {prompt.text}", "observer")
"""


def test_cory_as_a_users_file_gives_corys_numbers(config_of: ConfigOf, team: ConfigOf) -> None:
    words = ("algorithm.samples_per_prompt=2", "task.observer_template='{answers}: {query}'")
    words += ("algorithm.kl_estimator=k1", "algorithm.kl_coef=0.05", "algorithm.learning_rate=1e-4")
    cory = config_of("algorithm=cory", "algorithm.swap_every=2", *words)
    names = "algorithm.agents=[agent_0,agent_1]"
    mine = team(CORY, names, "algorithm.credit=sum", *words)
    theirs, ours = steps(build(cory), 0, 1, 2), steps(build(mine), 0, 1, 2)
    for one, other in zip(theirs, ours, strict=True):
        shared = {name for name in one if name in other}
        assert {"objective/kl/agent_0", "ppo/policy/ratio/agent_1"} <= shared
        assert {name: one[name] for name in shared} == {name: other[name] for name in shared}


RETURNS = """
async def play(prompt, team):
    first = await team.one.say(prompt.text)
    again = await team.one.say(first.text or "nothing")
    if len(again.text) > 6:
        await team.two.say("Say " + again.text)
    return {RETURNED}
"""


def returning(what: str) -> str:
    return RETURNS.replace("{RETURNED}", what)


def test_what_is_returned_is_the_reward(team: ConfigOf) -> None:
    trainer = build(team(returning('{"one": [0.5, 2], "two": 4}')), LetterShare())
    metrics = trainer.step(0)
    stops, long = trainer.agents["one"].bundle.stops, 0
    for episode in trainer.episodes:
        first, again, *rest = episode.turns
        assert (first.score, first.credit, again.score, again.credit) == (0.5, 2.5, 2, 2)
        assert [(turn.score, turn.credit) for turn in rest] == [(4, 4)] * len(rest)
        assert again.context == (first.text or "nothing") and again.round == 1
        for turn in episode.turns:  # each is what `say` has replied
            assert turn.text == turn.response and turn.ids == turn.response_ids
            assert turn.logprob == sum(turn.sampler_logprobs) < 0
            assert turn.cut_off == (turn.ids[-1] not in stops)
        long += len(rest)
    assert 0 < long < 8  # not everybody speaks in every episode
    assert metrics["rollout/return/one"] == 2.5 and metrics["rollout/return/two"] == 4 * long / 8
    assert metrics["rollout/return/team"] == ((8 - long) * 2.5 + long * 3.25) / 8


@pytest.mark.parametrize(
    ("credit", "expected"),
    [
        ("own", [3.5, 2.5, 2.0]),
        ("discounted", [1.0 + 0.5 * 2.5, 2.5, 2.0]),
        ("sum", [5.5, 5.5, 5.5]),
        ("mean", [2.75, 2.75, 2.75]),
        ("later", [5.5, 4.5, 2.0]),
        ("{file}:half", [1.0, 3.0, 3.25]),
    ],
)
def test_credit(team: ConfigOf, tmp_path: Path, credit: str, expected: list[float]) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "def half(turns):\n"
        "    return [own.score + 0.5 * (before.score if before else 0)\n"
        "            for before, own in zip([None, *turns], turns)]\n"
    )
    text = returning('{"one": [1, 2.5], "two": 2}').replace("len(again.text) > 6", "True")
    rule = credit.replace("{file}", str(file))
    more = ["algorithm.turn_discount=0.5"] if credit == "discounted" else []
    trainer = build(team(text, f"algorithm.credit={rule}", *more))
    trainer.step(0)
    assert [[turn.credit for turn in e.turns] for e in trainer.episodes] == [expected] * 8


@pytest.mark.parametrize("policies", ["separate", "shared"])
@pytest.mark.parametrize(
    ("credit", "expected"), [("own", [5.0, 3.0, 3.0]), ("mean", [4.0, 4.0, 4.0])]
)
def test_agents_are_paid_whatever_their_roles(
    team: ConfigOf, tmp_path: Path, policies: str, credit: str, expected: list[float]
) -> None:
    """One has two roles, the second of which is the other's, too."""
    play = """
async def play(prompt, team):
    await team.one.say(prompt.text, role="draft")
    await team.two.say(prompt.text, role="voter")
    await team.one.say(prompt.text, role="voter")
    return {"one": [2, 3], "two": 3}
"""
    config = team(play, f"algorithm.credit={credit}", f"algorithm.policies={policies}")
    trainer = build(config)
    metrics = trainer.step(0)
    assert [[turn.credit for turn in e.turns] for e in trainer.episodes] == [expected] * 8
    found, lines = measure(trainer, config, tmp_path)
    assert [turn.get("member") for turn in lines[0]["turns"]] == ["one", "two", "one"]
    for name, value in {"one": 5.0, "two": 3.0, "team": 4.0}.items():
        assert metrics[f"rollout/return/{name}"] == found[f"eval/score/{name}"] == value
    assert {name.rpartition("/")[2] for name in found} == {"one", "two", "team"}


@pytest.mark.parametrize(
    ("what", "rule"),
    [
        ("{'one': 1}", "returns no reward of two, which spoke"),
        ("{'one': [1], 'two': 1}", "returns 1 rewards of one, which spoke 2 times"),
        ("{'one': 'x', 'two': 1}", "returns 'x' as a reward of one: no number"),
        ("team.three", "line 7: AttributeError: three is not one of algorithm.agents, one, two"),
        ("1 / 0", "line 7: ZeroDivisionError: division by zero"),
        ("await team.one.say('')", "can be shown a text or messages, got ''"),
        ("await team.one.say('long ' * 90)", "shown more than leaves room for a reply"),
    ],
)
def test_a_play_that_breaks_a_rule_is_refused_with_its_line(team, what: str, rule: str) -> None:
    text = returning(what).replace("len(again.text) > 6", "True")
    config = team(text)
    said = refusal(lambda: build(config).step(0))
    assert said.startswith(f"algorithm.play={config.algorithm.play}, prompt ")
    assert rule in said and "\n" not in said


@pytest.mark.parametrize("name", ["transformer", "lora_A", "values"])
def test_an_adapter_has_a_name_that_no_layer_has(team: ConfigOf, name: str) -> None:
    config = team(returning("0.0"), f"algorithm.agents=[{name},two]", "model.sharing=adapters")
    said = f"an agent with an adapter cannot be called {name}, as a part of the model is"
    assert refusal(lambda: build(config)) == said


def test_as_many_utterances_as_allowed_and_no_more(team: ConfigOf) -> None:
    three = "[await team.one.say('a') for _ in range(3)]"
    text = f"async def play(prompt, team):\n    {three}\n    return 1\n"
    build(team(text, "algorithm.max_utterances=3")).step(0)
    said = refusal(lambda: build(team(text, "algorithm.max_utterances=2")).step(0))
    assert "more than algorithm.max_utterances=2 utterances" in said


def test_a_play_is_a_coroutine_that_speaks(team: ConfigOf) -> None:
    said = refusal(lambda: build(team("def play(prompt, team):\n    return 1\n")))
    assert "must be a coroutine: async def play(prompt, team)" in said
    silent = build(team("async def play(prompt, team):\n    return 1\n"))
    assert "no agent has spoken" in refusal(lambda: silent.step(0))


def test_where_nothing_is_returned_the_reward_scores(team: ConfigOf, capsys) -> None:
    trainer = build(team(returning("None")), LetterShare())
    trainer.step(0)
    assert "note: rewards: reward=sentiment scores every utterance" in capsys.readouterr().err
    shares = [t.text.count("e") / max(1, len(t.text)) for e in trainer.episodes for t in e.turns]
    assert [t.score for e in trainer.episodes for t in e.turns] == shares
    mixed = build(team(returning("None if len(again.text) > 6 else 1")), LetterShare())
    assert "it must do one or the other" in refusal(lambda: mixed.step(0))


def test_policies_are_shared_as_the_settings_say(team: ConfigOf) -> None:
    text = returning("1").replace("len(again.text) > 6", "True")
    assert list(build(team(text)).agents) == ["one", "two"]
    shared = build(team(text, "algorithm.policies=shared"))
    shared.step(0)
    assert list(shared.agents) == ["shared"]
    assert {(t.agent, t.role) for e in shared.episodes for t in e.turns} == {
        ("shared", "one"),
        ("shared", "two"),
    }
    mapped = build(team(text, "algorithm.policies={one:a,two:a}"))
    assert list(mapped.agents) == ["a"]


def test_an_evaluation_has_the_teams_score_and_each_agents(team: ConfigOf, tmp_path: Path) -> None:
    config = team(returning('{"one": 1, "two": 3}'), "evaluation.samples=2")
    metrics, lines = measure(build(config), config, tmp_path)
    spoke = [len(line["turns"]) == 3 for line in lines]
    assert len(lines) == 16 and 0 < sum(spoke) < 16
    assert metrics["eval/score/one"] == 1 and metrics["eval/score/two"] == 3 * sum(spoke) / 16
    assert metrics["eval/score/team"] == sum(2 if two else 1 for two in spoke) / 16


def test_a_role_is_paid_above_its_own_baseline(team: ConfigOf) -> None:
    text = returning('{"one": [1, 1], "two": -4}').replace("len(again.text) > 6", "True")
    words = ["algorithm.advantages=rae", "algorithm.baseline_decay=0.75"]
    trainer = build(team(text, "algorithm.policies=shared", "algorithm.kl_coef=0", *words))
    given: list[list[float]] = []
    estimate = trainer.estimate

    def noted(batch: Batch, groups: Tensor, kl_coef: float) -> Estimate:
        found = estimate(batch, groups, kl_coef)
        tokens = batch.response_mask.sum(1).clamp(min=1)
        given.append((found.advantages.sum(1) / tokens).tolist())
        return found

    trainer.estimate = noted
    trainer.step(0)
    (policy,) = trainer.agents.values()
    assert policy.scale.baselines == {"one": 1.5, "two": -4}  # credits of one: 2 and 1, of two: -4
    assert given[0] == pytest.approx([0.5, -0.5, 0.0] * 8)
    policy.scale.baselines = {"one": 0.5, "two": 0.0}
    policy.load_state_dict(policy.state_dict())
    trainer.step(1)
    assert policy.scale.baselines == {"one": 0.75 * 0.5 + 0.25 * 1.5, "two": -1.0}
    assert given[1] == pytest.approx([2 - 0.75, 1 - 0.75, -3.0] * 8)


@pytest.mark.parametrize("name", ["at_grpo", "dr_mas", "global", "magrpo"])
def test_what_papers_compare_by_hand(team: ConfigOf, name: str) -> None:
    """Two samples of each of four prompts; agent one speaks twice, two only sometimes."""
    paid = '{"one": [len(first.text), 2 * len(again.text)], "two": len(prompt.text)}'
    words = [f"advantages={name}", "algorithm.samples_per_prompt=2"]
    words += ["algorithm.credit=sum"] if name == "magrpo" else []
    trainer = build(team(returning(paid), *words))
    found = updates_of(trainer, 1)
    unequal = 0
    for agent, (update,) in found.items():
        expected = []
        for number, episode in enumerate(trainer.episodes):
            start = number - number % 2
            for turn in (turn for turn in episode.turns if turn.role == agent):
                spoken = [one for e in trainer.episodes[start : start + 2] for one in e.turns]
                if name in ("at_grpo", "dr_mas"):
                    spoken = [one for one in spoken if one.role == agent]
                if name == "at_grpo":
                    spoken = [one for one in spoken if one.round == turn.round]
                values = [float(one.credit or 0) for one in spoken]
                if name == "magrpo":  # an episode's turns share its return
                    pair = trainer.episodes[start : start + 2]
                    values = [sum(float(one.score or 0) for one in e.turns) for e in pair]
                    assert turn.credit == values[number % 2]
                unequal += len({*values}) > 1
                mean, several = sum(values) / len(values), max(1, len(values) - 1)
                std = (sum((value - mean) ** 2 for value in values) / several) ** 0.5
                whole = 1 if name == "magrpo" else std + 1e-4
                expected.append((float(turn.credit or 0) - mean) / whole)
        mask, given = update.batch.response_mask, update.estimate.advantages
        assert (given[:, 0][mask[:, 0]]).tolist() == pytest.approx(expected, rel=1e-4, abs=1e-5)
        assert given[~mask].tolist() == [0.0] * int((~mask).sum())
    assert unequal > 4


def test_a_credit_of_another_length_is_refused(config_of: ConfigOf, tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text("def short(turns):\n    return [1]\n")
    wrong = build(config_of("algorithm=cory", f"algorithm.credit={tmp_path}/wrong.py:short"))
    said = refusal(lambda: wrong.step(0))
    assert "must return a list of 2 numbers, one per utterance; got [1]" in said


class Nim:
    """A game with TextArena's methods: each takes 1 of the seed's heap, the last one wins."""

    def reset(self, num_players: int, seed: int) -> None:
        self.left, self.player, self.seed = seed, 0, seed

    def get_observation(self) -> tuple[int, str]:
        return self.player, f"{self.left} left."

    def step(self, text: str) -> tuple[bool, dict[str, Any]]:
        self.left, self.player = self.left - 1, 1 - self.player
        return self.left == 0, {}

    def close(self) -> tuple[dict[int, int], dict[int, Any]]:
        winner = 1 - self.player
        return {winner: 1, 1 - winner: -1}, {}


def test_textarena_games_are_played(team: ConfigOf, monkeypatch) -> None:
    made: list[str] = []
    fake = SimpleNamespace(make=lambda name: made.append(name) or Nim())
    monkeypatch.setitem(sys.modules, "textarena", fake)
    trainer = build(team("", "algorithm.play=cory.rollout.textarena:play"))
    sample = trainer.components.task.sample
    trainer.components.task.sample = lambda count: [  # type: ignore[method-assign]
        replace(prompt, columns={"game": "Nim-v0", "seed": 1 + number % 3})
        for number, prompt in enumerate(sample(count))
    ]
    trainer.step(0)
    assert made == ["Nim-v0"] * 8
    for number, episode in enumerate(trainer.episodes):
        heap = 1 + number % 3
        who = [("one", "two")[n % 2] for n in range(heap)]
        assert [turn.role for turn in episode.turns] == who
        assert [turn.context for turn in episode.turns] == [
            f"{n} left." for n in range(heap, 0, -1)
        ]
        assert episode.turns[-1].score == 1
        assert heap == 1 or episode.turns[-2].score == -1
