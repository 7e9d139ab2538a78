"""Evaluations: who is asked what, how it is counted, and that no answer is lost or asked twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from cory.algorithms.cory import Roles, pioneer_observer
from cory.config import Config, EvaluationConfig, SamplingConfig
from cory.episode import Asked, Episode, Metrics, Prompt, Turn
from cory.evaluation.evaluate import TeamEvaluator
from cory.evaluation.response_scores import score_metrics
from cory.evaluation.responses import EvalRequest
from cory.functional.statistics import wilson
from cory.runs.files import Line
from cory.seeding import uniforms
from tests.support.building import LetterShare, build, measure

ConfigOf = Callable[..., Config]


# without a model: agents that say what a test wants


class Model:
    """Weights of one number."""

    def __init__(self) -> None:
        self.weights = {"w": torch.zeros(1)}

    def trainable(self) -> dict[str, torch.Tensor]:
        return self.weights


@dataclass
class Hardware:
    responses_at_once: int = 100


@dataclass
class Actor:
    """An agent that is right where its random number is below `skill`; greedily, where 0.5 is."""

    name: str
    skill: float
    asked: list[tuple[str, list[str]]] = field(default_factory=list)
    model: Model = field(default_factory=Model)
    hardware: Hardware = field(default_factory=Hardware)
    team: str = "one"

    @contextmanager
    def whole(self) -> Iterator[None]:
        yield

    def turns(
        self, asked: Sequence[Asked], limit: int, sampling: SamplingConfig | None
    ) -> list[Turn]:
        if asked:
            self.asked.append((asked[0].role, [str(one.context) for one in asked]))
        return [
            Turn(
                self.name,
                one.role,
                one.round,
                str(one.context),
                self.say(0.5 if one.uniforms is None else float(one.uniforms[0])),
                [],
                [0],
            )
            for one in asked
        ]

    def say(self, u: float) -> str:
        return f"{u:.6f}, so it is {7 if u < self.skill else 8}"


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


def sampling() -> SamplingConfig:
    return SamplingConfig(
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        repetition_penalty=1.0,
        min_response_tokens=1,
        max_response_tokens=5,
    )


def settings(**changes: Any) -> EvaluationConfig:
    values: dict[str, Any] = {
        "prompts": 10, "split": "test", "samples": 4, "k": [1, 2, 4],
        "greedy": True, "team": True, "probes": ["who?"], "before": False,
    }  # fmt: skip
    return EvaluationConfig(**values | changes)


def evaluator_of(skills: tuple[float, ...] = (0.3, 0.6)) -> tuple[TeamEvaluator, list[Actor]]:
    """The evaluator of a chain of agents with these skills, and the agents."""
    actors = [Actor(f"agent_{i}", skill) for i, skill in enumerate(skills)]
    roles = Roles([actor.name for actor in actors])
    play = pioneer_observer(roles, lambda q, seen: f"{q} | {'; '.join(seen)}")
    agents: Any = {actor.name: actor for actor in actors}
    task: Any = Questions()
    evaluator = TeamEvaluator(agents, task, Judge(), sampling(), play, agents, score_metrics)
    return evaluator, actors


def run(
    evaluator: TeamEvaluator,
    folder: Path,
    config: EvaluationConfig | None = None,
    final: bool = True,
) -> tuple[Metrics, list[Line]]:
    """An evaluation to its end."""
    request = EvalRequest(config or settings(), 0, 3, final)
    found = evaluator(request, lambda done, rows: None)
    return found, request.lines


def chosen(lines: list[Line], who: str, kind: str = "evaluation") -> list[Line]:
    return [line for line in lines if line["who"] == who and line["kind"] == kind]


def test_every_response_is_kept_and_says_whose_it_is(tmp_path: Path) -> None:
    evaluator, _ = evaluator_of()
    _, lines = run(evaluator, tmp_path)
    evaluated = [line for line in lines if line["kind"] == "evaluation"]
    sampled = [line for line in evaluated if line["sample"] is not None]
    keys = [(line["who"], line["sample"], line["prompt_id"]) for line in sampled]
    whom = ("agent_0", "agent_1", "team")
    assert keys == [(who, s, f"q{i}") for who in whom for s in range(4) for i in range(10)]
    greedy = [line for line in evaluated if line["sample"] is None]
    assert [(line["who"], line["prompt_id"]) for line in greedy] == [
        (who, f"q{i}") for who in whom for i in range(10)
    ]
    assert all(t["response"].startswith("0.500000") for line in greedy for t in line["turns"])
    assert len(sampled) + len(greedy) + len(chosen(lines, "agent_0", "probe")) * 2 == len(lines)
    first = lines[0]
    said = first["turns"][0].pop("response")
    assert first == {
        "iteration": 3, "kind": "evaluation", "who": "agent_0", "split": "test", "sample": 0,
        "prompt_id": "q0", "prompt": "question 0", "answer": "7",
        "turns": [{"agent": "agent_0", "role": "solo", "context": None,
                   "score": float(said.endswith("7"))}],
    }  # fmt: skip


def test_an_observer_is_given_what_the_pioneer_said(tmp_path: Path) -> None:
    evaluator, _ = evaluator_of()
    _, lines = run(evaluator, tmp_path)
    for line in chosen(lines, "team"):
        pioneer, observer = line["turns"]
        assert [t["role"] for t in line["turns"]] == ["pioneer", "observer"]
        assert pioneer["context"] is None
        assert observer["context"] == f"{line['prompt']} | {pioneer['response']}"
    # the observer does not draw anybody's numbers
    sampled = chosen(lines, "team")[:40]
    assert all(line["turns"][0]["response"] != line["turns"][1]["response"] for line in sampled)


def test_the_numbers_by_hand(tmp_path: Path) -> None:
    """Three prompts, two responses of each agent, a team of two: R right, W wrong."""
    table = {
        # sample 0: prompts 0 1 2; sample 1: the same
        "agent_0": "RWW RWW",
        "pioneer": "RWW RWW",
        "agent_1": "WWW WWW",
        "observer": "WRW WWW",
    }
    evaluator, actors = evaluator_of()

    class Scripted(Actor):
        def turns(self, asked: Sequence[Asked], *rest: Any) -> list[Turn]:
            role = asked[0].role
            script = table[self.name if role == "solo" else role].replace(" ", "")
            answers = {"R": "7", "W": "8"}
            assert len(asked) in (3, 6)  # greedily as the first response
            return [
                Turn(self.name, role, one.round, str(one.context), answers[mark], [], [0])
                for one, mark in zip(asked, script, strict=False)
            ]

    for actor in actors:
        actor.__class__ = Scripted
    config = settings(prompts=3, samples=2, k=[1, 2], probes=[])
    found, _ = run(evaluator, tmp_path, config)
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
    for name in ("any_of_2", "greedy"):
        bounds = [found[f"eval/{name}_{end}/team"] for end in ("low", "high")]
        assert bounds == pytest.approx(wilson(2 / 3, 3))
    names = {name.split("/")[1] for name in found}
    assert names == {"score"} | {
        f"{name}{end}"
        for name in ("pass_at_1", "pass_at_2", "any_of_1", "any_of_2", "greedy")
        for end in ("", "_low", "_high")
    }
    whom = {name.split("/")[2] for name in found}
    assert whom == {"agent_0", "agent_1", "pioneer", "observer", "team"}


def test_more_responses_leave_the_first_ones_as_they_are(tmp_path: Path) -> None:
    evaluator, _ = evaluator_of()
    _, few = run(evaluator, tmp_path / "few", settings(samples=1, k=[1]))
    _, many = run(evaluator, tmp_path / "many")
    for who in ("agent_0", "agent_1", "team"):
        first = [line for line in chosen(many, who) if line["sample"] in (0, None)]
        assert first == chosen(few, who)


def test_agents_alone_get_the_same_numbers_and_samples_do_not(tmp_path: Path) -> None:
    evaluator, _ = evaluator_of((0.5, 0.5))
    _, lines = run(evaluator, tmp_path)
    said = [
        [line["turns"][0]["response"] for line in chosen(lines, who) if line["sample"] is not None]
        for who in ("agent_0", "agent_1")
    ]
    assert said[0] == said[1]  # what differs between them is not chance
    assert len(set(said[0])) == 40


def test_no_more_is_asked_at_once_than_the_hardware_says(tmp_path: Path) -> None:
    evaluator, actors = evaluator_of()
    whole = run(evaluator, tmp_path / "whole")
    evaluator, actors = evaluator_of()
    for actor in actors:
        actor.hardware.responses_at_once = 7
    assert run(evaluator, tmp_path / "cut") == whole
    assert max(len(contexts) for actor in actors for _, contexts in actor.asked) == 7


def test_probes_are_asked_at_the_end_alone_and_nobody_judges_them(tmp_path: Path) -> None:
    evaluator, _ = evaluator_of()
    measured, lines = run(evaluator, tmp_path / "a", final=False)
    assert not [line for line in lines if line["kind"] == "probe"]
    again, lines = run(evaluator, tmp_path / "b", settings(probes=["who?", "why?"]))
    assert again == measured
    probes = [line for line in lines if line["kind"] == "probe"]
    assert lines[-len(probes) :] == probes
    assert [(p["who"], p["sample"], p["prompt_id"], p["prompt"]) for p in probes] == [
        (who, sample, f"probe-{i}", text)
        for sample in (0, None)
        for who in ("agent_0", "agent_1")
        for i, text in enumerate(["<who?>", "<why?>"])
    ]
    assert all(p["answer"] is p["split"] is p["turns"][0]["score"] is None for p in probes)


# with models


@pytest.mark.slow
def test_the_score_is_that_of_one_pass_over_all_prompts(
    config_of: ConfigOf, tmp_path: Path
) -> None:
    """Of greedy responses, too; without answers there is no interval."""
    words = ("evaluation.greedy=true", "evaluation.team=true", "hardware.rollout_batch_size=3")
    config = config_of("algorithm=cory", *words)
    trainer = build(config, LetterShare())
    trainer.step(0)
    found, lines = measure(trainer, config, tmp_path)
    whom = ("agent_0", "agent_1", "pioneer", "observer", "team")
    assert set(found) == {f"eval/{name}/{who}" for name in ("score", "greedy") for who in whom}
    prompts = trainer.parts.task.held_out(8, "test")
    for name, agent in trainer.agents.items():
        asked = [
            Asked(prompt.text, "solo", uniforms=uniforms((0, "evaluation", row, "solo", 0), 6))
            for row, prompt in enumerate(prompts)
        ]
        spoken = agent.turns(asked, 6, config.algorithm.sampling)
        episodes = [Episode(p, [t]) for p, t in zip(prompts, spoken, strict=True)]
        LetterShare().score(episodes)
        sampled, greedy = (
            [line["turns"][0] for line in chosen(lines, name) if (line["sample"] is None) == none]
            for none in (False, True)
        )
        assert [turn["response"] for turn in sampled] == [turn.response for turn in spoken]
        scores = torch.tensor([episode.turns[0].score for episode in episodes])
        assert found[f"eval/score/{name}"] == scores.mean().item() > 0
        mean = sum(turn["score"] for turn in greedy) / len(greedy)
        assert found[f"eval/greedy/{name}"] == pytest.approx(mean)


# refusals


def test_what_prompts_contribute_has_the_metrics_as_its_mean(tmp_path: Path) -> None:
    evaluator, _ = evaluator_of()
    request = EvalRequest(settings(), 0, 3, True)
    metrics = evaluator(request, lambda done, rows: None)
    scores = request.scores
    assert scores.prompts == [f"q{i}" for i in range(10)]
    whom = ("agent_0", "agent_1", "team", "pioneer", "observer")
    names = {f"eval/{kind}/{who}" for who in whom for kind in ("score", "pass_at_1", "greedy")}
    assert scores.values.keys() == names
    for name in names:
        assert abs(sum(scores.values[name]) / 10 - metrics[name]) < 1e-6, name
    # of the team's greedy answers one is right where one of either agent's is
    tries = {name: 1 if "greedy" in name else 4 for name in names}
    assert scores.shares == tries  # a judge of 0 and 1 counts what is right
    right = [
        turn["response"].endswith("7")
        for line in request.lines
        if (line["who"], line["prompt_id"]) == ("agent_1", "q3") and line["sample"] is not None
        for turn in line["turns"]
    ]
    assert scores.values["eval/score/agent_1"][3] == sum(right) / 4
