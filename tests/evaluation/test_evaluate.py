"""Evaluations: who is asked what, how it is counted, and that no answer is lost or asked twice."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cory.algorithms.cory import Roles, pioneer_observer
from cory.config import EvaluationConfig
from cory.episode import Asked, Episode, Metrics, Prompt
from cory.evaluation.evaluate import (
    TeamEvaluator,
    pass_metrics,
    return_metrics,
    score_metrics,
    worth_asking,
)
from cory.evaluation.responses import EvalRequest, PromptScores, ResponseSet
from cory.functional.statistics import mean
from cory.models.actor import Silent
from cory.runs.files import Line
from tests.support.building import require_contributions
from tests.support.speaking import Script, ScriptedActor

SKILLS = {"agent_0": 0.3, "agent_1": 0.6}


def by_number(agent: str, asked: Asked) -> str:
    """Right where the random number is below the agent's skill; greedily, where 0.5 is."""
    u = 0.5 if asked.uniforms is None else float(asked.uniforms[0])
    return f"{u:.6f}, so it is {7 if u < SKILLS[agent] else 8}"


class Questions:
    """Prompts whose answer is 7."""

    def held_out(self, count: int | None, split: str) -> list[Prompt]:
        assert split == "test"
        return [Prompt(f"q{i}", f"question {i}", "7") for i in range(count or 10)]

    def prompt_of(self, text: str) -> Prompt:
        return Prompt("probe", f"<{text}>")

    def is_right(self, response: str, answer: str) -> bool:
        return response.endswith(answer)


class Judge:
    """1 for a right answer."""

    def score(self, episodes: list[Episode]) -> None:
        for episode in episodes:
            assert episode.prompt.answer is not None
            for turn in episode.turns:
                turn.score = float(turn.response.endswith(episode.prompt.answer))


def settings(**changes: Any) -> EvaluationConfig:
    values: dict[str, Any] = {
        "prompts": 10, "split": "test", "samples": 4, "k": [1, 2, 4],
        "greedy": True, "team": True, "probes": ["who?"], "before": False, "probes_of_team": [],
    }  # fmt: skip
    return EvaluationConfig(**values | changes)


def evaluator_of(
    say: Callable[[str, Asked], str | None] = by_number, rows: int = 100
) -> tuple[TeamEvaluator, Script]:
    """The evaluator of a pioneer and an observer, and what they are shown."""
    script, roles = Script(say), Roles([*SKILLS])
    agents: Any = {name: ScriptedActor(name, script) for name in SKILLS}
    for agent in agents.values():
        agent.hardware = SimpleNamespace(responses_at_once=rows)
    play = pioneer_observer(roles, lambda q, seen: f"{q} | {'; '.join(seen)}")
    task: Any = Questions()
    judge: Any = Judge()
    sampling: Any = SimpleNamespace(min_response_tokens=1, max_response_tokens=5)
    return TeamEvaluator(agents, task, judge, sampling, play, agents, score_metrics), script


def run(
    evaluator: TeamEvaluator, config: EvaluationConfig | None = None, final: bool = True
) -> tuple[Metrics, list[Line]]:
    """An evaluation to its end."""
    request = EvalRequest(config or settings(), 0, 3, final)
    return evaluator(request, lambda done, rows: None), request.lines


def chosen(lines: list[Line], who: str, kind: str = "evaluation") -> list[Line]:
    return [line for line in lines if line["who"] == who and line["kind"] == kind]


def test_every_response_is_kept_and_says_whose_it_is() -> None:
    _, lines = run(evaluator_of()[0])
    evaluated = [line for line in lines if line["kind"] == "evaluation"]
    sampled = [line for line in evaluated if line["sample"] is not None]
    keys = [(line["who"], line["sample"], line["prompt_id"]) for line in sampled]
    whom = (*SKILLS, "team")
    assert keys == [(who, s, f"q{i}") for who in whom for s in range(4) for i in range(10)]
    greedy = [line for line in evaluated if line["sample"] is None]
    assert [(line["who"], line["prompt_id"]) for line in greedy] == [
        (who, f"q{i}") for who in whom for i in range(10)
    ]
    assert all(t["response"].startswith("0.500000") for line in greedy for t in line["turns"])
    for line in chosen(lines, "team"):
        pioneer, observer = line["turns"]
        assert (pioneer["role"], observer["role"]) == ("pioneer", "observer")
        assert observer["context"] == f"{line['prompt']} | {pioneer['response']}"
        # the observer does not draw anybody's numbers
        if line["sample"] is not None:
            assert pioneer["response"] != observer["response"]
    first = lines[0]
    said = first["turns"][0].pop("response")
    assert first == {
        "iteration": 3, "kind": "evaluation", "who": "agent_0", "split": "test", "sample": 0,
        "prompt_id": "q0", "prompt": "question 0", "answer": "7",
        "turns": [{"agent": "agent_0", "role": "solo", "context": None,
                   "score": float(said.endswith("7"))}],
    }  # fmt: skip


def test_a_team_solves_what_its_last_answer_solves() -> None:
    """Two prompts, two episodes about each: before the training, too, by prompt."""
    answers = ["77", "78", "87", "87"]  # what the first and the second of each episode say
    lines = [
        {
            "turns": [
                {"role": who, "response": said, "score": 0.5}
                for who, said in zip("ab", own, strict=True)
            ]
        }
        for own in answers
    ]
    prompts = Questions().held_out(2, "test")
    responses = ResponseSet("team", "measured", prompts, 2, lines=lines)
    request = EvalRequest(
        settings(samples=2, k=[1, 2]), 0, -1, final=False, scores=PromptScores(["0", "1"])
    )
    task: Any = Questions()
    found = return_metrics(["a", "b"], task, responses, request)
    assert (found["eval/pass_at_1/team"], found["eval/pass_at_2/team"]) == (0.75, 1.0)
    assert (found["eval/any_of_1/team"], found["eval/any_of_2/team"]) == (0.5, 1.0)
    assert request.scores.values["eval/pass_at_1/team"] == [1.0, 0.5]
    assert request.scores.shares["eval/pass_at_1/team"] == 2


def test_the_numbers_by_hand() -> None:
    """Three prompts, two responses of each agent, a team of two: R right, W wrong."""
    marks = {  # sample 0: prompts 0 1 2; sample 1: the same; greedily as sample 0
        "agent_0": iter("RWW RWW RWW".replace(" ", "")),
        "pioneer": iter("RWW RWW RWW".replace(" ", "")),
        "agent_1": iter("WWW WWW WWW".replace(" ", "")),
        "observer": iter("WRW WWW WRW".replace(" ", "")),
    }

    def say(agent: str, asked: Asked) -> str:
        return {"R": "7", "W": "8"}[next(marks[agent if asked.role == "solo" else asked.role])]

    config = settings(prompts=3, samples=2, k=[1, 2], probes=[])
    request = EvalRequest(config, 0, 3, final=True)
    found = evaluator_of(say)[0](request, lambda done, rows: None)
    expected = {
        # right responses of each prompt: agent_0 2 0 0, agent_1 0 0 0, observer 0 1 0, team 2 1 0
        "score/agent_0": 2 / 6,
        "score/agent_1": 0.0,
        "score/pioneer": 2 / 6,
        "score/observer": 1 / 6,
        "score/team": 3 / 12,
        "pass_at_1/agent_0": 1 / 3,
        "pass_at_2/agent_0": 1 / 3,
        "pass_at_1/observer": (1 / 2) / 3,
        "pass_at_2/observer": 1 / 3,
        "any_of_1/observer": 1 / 3,  # its right response is the first one
        "any_of_2/observer": 1 / 3,
        "pass_at_1/pioneer": 1 / 3,
        "pass_at_1/team": (1 + 1 / 2) / 3,
        "any_of_1/team": 2 / 3,
        "pass_at_2/team": 2 / 3,
        "any_of_2/team": 2 / 3,
        "any_of_2/agent_1": 0.0,
        "greedy/agent_0": 1 / 3,
        "greedy/observer": 1 / 3,
        "greedy/team": 2 / 3,
    }
    for name, value in expected.items():
        assert found[f"eval/{name}"] == pytest.approx(value), name
    names = {name.split("/")[1] for name in found}
    assert names == {"score", "pass_at_1", "pass_at_2", "any_of_1", "any_of_2", "greedy"}
    whom = {name.split("/")[2] for name in found}
    assert whom == {"agent_0", "agent_1", "pioneer", "observer", "team"}
    # what prompts contribute
    require_contributions(request, found)
    scores = request.scores
    kinds = ("score", "pass_at_1", "greedy")
    assert scores.values.keys() == {f"eval/{kind}/{who}" for who in whom for kind in kinds}
    assert scores.prompts == ["q0", "q1", "q2"]
    assert scores.values["eval/score/observer"] == [0.0, 0.5, 0.0]
    # pass@2 of two tries is one
    either = EvalRequest(settings(prompts=3, samples=2, k=[2], probes=[]), 0, 3, final=True)
    pass_metrics("agent_0", [[True, False], [False, False]], either)
    assert either.scores.shares == {"eval/pass_at_2/agent_0": 1}
    # a judge of 0 and 1 counts what is right
    assert scores.shares == {name: 1 if "greedy" in name else 2 for name in scores.values}


def test_more_responses_leave_the_first_ones_as_they_are() -> None:
    _, few = run(evaluator_of()[0], settings(samples=1, k=[1]))
    _, many = run(evaluator_of()[0])
    for who in (*SKILLS, "team"):
        first = [line for line in chosen(many, who) if line["sample"] in (0, None)]
        assert first == chosen(few, who)
    # agents alone get the same numbers, so that what differs between them is not chance
    numbers = [
        [
            line["turns"][0]["response"][:8]
            for line in chosen(many, who)
            if line["sample"] is not None
        ]
        for who in SKILLS
    ]
    assert numbers[0] == numbers[1] and len(set(numbers[0])) == 40


def test_no_more_is_asked_at_once_than_the_hardware_says() -> None:
    evaluator, script = evaluator_of(rows=7)
    assert run(evaluator) == run(evaluator_of()[0])
    assert max(len(contexts) for *_, contexts in script.shown) == 7


def test_probes_are_asked_at_the_end_alone_and_nobody_judges_them() -> None:
    measured, lines = run(evaluator_of()[0], final=False)
    assert not [line for line in lines if line["kind"] == "probe"]
    again, lines = run(evaluator_of()[0], settings(probes=["who?", "why?"]))
    assert again == measured
    probes = [line for line in lines if line["kind"] == "probe"]
    assert lines[-len(probes) :] == probes
    assert [(p["who"], p["sample"], p["prompt_id"], p["prompt"]) for p in probes] == [
        (who, sample, f"probe-{i}", text)
        for sample in (0, None)
        for who in SKILLS
        for i, text in enumerate(["<who?>", "<why?>"])
    ]
    assert all(p["answer"] is p["split"] is p["turns"][0]["score"] is None for p in probes)


def test_a_changed_team_keeps_its_random_numbers() -> None:
    """The observer sees a silent pioneer, and draws what it draws beside one that speaks."""
    evaluator, _ = evaluator_of()
    agents: Any = evaluator.agents
    probes: Any = {
        "muted_agent_0": {"agent_0": Silent("agent_0")},
        "muted_agent_1": {"agent_1": Silent("agent_1")},  # after whom nobody speaks: not asked
        "swapped": {"agent_0": agents["agent_1"], "agent_1": agents["agent_0"]},
    }
    request = EvalRequest(settings(), 0, 3, final=True)
    found = replace(evaluator, probes=probes)(request, lambda done, rows: None)
    require_contributions(request, found)
    plain, lines = run(evaluator)
    assert {name: value for name, value in found.items() if name.count("/") == 2} == plain
    assert request.lines[: len(lines)] == lines
    team = [line["turns"] for line in chosen(lines, "team") if line["sample"] is not None]
    whom = ["muted_agent_0", "swapped"]
    asked = request.lines[len(lines) :]
    assert [line["who"] for line in asked] == [who for who in whom for _ in range(40)]
    changed = ([line["turns"] for line in chosen(asked, who)] for who in whom)
    for whole, muted, swapped in zip(team, *changed, strict=True):
        assert [turn["response"] for turn in muted] == ["", whole[1]["response"]]
        assert muted[1]["context"].endswith(" | ") and whole[1]["context"] != muted[1]["context"]
        for one, other, by in zip(whole, swapped, ("agent_1", "agent_0"), strict=True):
            assert one["role"] == other["role"] and other["agent"] == by
            assert one["response"][:8] == other["response"][:8]  # the same random number
    right = mean(float(turns[1]["response"].endswith("7")) for turns in team)
    assert found["eval/muted_agent_0/score/observer"] == found["eval/score/observer"]
    assert found["eval/muted_agent_0/score/team"] == pytest.approx(right / 2)
    assert found["eval/swapped/score/pioneer"] > found["eval/score/pioneer"]  # by the better agent


def test_who_is_heard_is_seen_from_the_episodes() -> None:
    def episode(*speakers: str) -> dict[str, Any]:
        return {"turns": [{"agent": name, "role": name} for name in speakers]}

    muted: Any = {f"muted_{name}": {name: Silent(name)} for name in "abc"}
    assert worth_asking(muted, [episode(*"aab")]) == ["muted_a", "muted_c"]  # c: it never spoke
    assert worth_asking(muted, [episode(*"abb")]) == ["muted_a", "muted_c"]
    assert worth_asking(muted, [episode(*"aba"), episode("c")]) == ["muted_a", "muted_b"]
    swapped: Any = {"swapped": {"b": object()}}
    assert worth_asking(swapped, [episode(*"ab")]) == ["swapped"]
