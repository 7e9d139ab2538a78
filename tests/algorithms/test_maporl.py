"""MAPoRL's arrangement: who sits where, who learns when, what is paid; on tiny random models."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cory.algorithms.maporl import TrainedDebates, breaks_guard
from cory.config import Config
from cory.episode import Episode, Prompt, Turn
from cory.functional.votes import VoteRule
from cory.rollout.debate import Debate
from tests.support.building import build, measure
from tests.support.composing import ConfigOf, maporl_settings

MAPORL = ["algorithm=maporl", "algorithm.guards.boxed=false", "algorithm.guards.min_tokens=null"]


class Last:
    """A judge that tells right from wrong by the last letter, so that both occur."""

    def score(self, episodes: list[Episode]) -> None:
        for episode in episodes:
            for turn in episode.turns:
                if not turn.absent:
                    turn.right = turn.response[-1:].islower()
                    turn.score = float(turn.right)


@pytest.mark.parametrize(
    ("words", "policies", "turns"),
    [
        (["algorithm.param_sharing=shared"], ["agent_0"], 6),
        (["algorithm.param_sharing=per_agent"], ["agent_0", "agent_1"], 3),
        ([], ["turn_1", "turn_2", "turn_3"], 2),
        (["algorithm.train_turns=[2,3]"], ["turn_2", "turn_3"], 2),
        (
            ["algorithm.param_sharing=per_turn_agent", "algorithm.turns=2"],
            ["agent_0_turn_1", "agent_0_turn_2", "agent_1_turn_1", "agent_1_turn_2"],
            1,
        ),
        (["algorithm.agents=1", "algorithm.turns=1"], ["turn_1"], 1),
        (["algorithm.param_sharing=shared", "algorithm.train_turns=[3]"], ["agent_0"], 2),
    ],
)
def test_the_policies_and_how_many_turns_each_learns_from(words, policies, turns) -> None:
    config = maporl_settings(*words)
    assert list(config.policies()) == policies
    assert config.turns_per_policy() == turns * config.prompts_per_iteration
    # of memory: agents' adapters are sampled together
    assert config.rows_sampled() == max(turns, config.agents) * config.prompts_per_iteration


def test_who_speaks_with_more_agents_and_turns_than_in_training() -> None:
    parts: Any = SimpleNamespace(config=SimpleNamespace(members={}))
    debates: Any = TrainedDebates(maporl_settings("algorithm.train_turns=[2,3]"), parts)
    names = [[debates.actor(turn, agent) for agent in range(3)] for turn in range(4)]
    assert names == [["reference"] * 3, ["turn_2"] * 3, ["turn_3"] * 3, ["turn_3"] * 3]
    parts.config.members["agent_1"] = "a block"
    two: Any = TrainedDebates(
        maporl_settings("algorithm.train_turns=[2,3]", "algorithm.param_sharing=per_turn_agent"),
        parts,
    )
    assert [two.actor(0, agent) for agent in range(3)] == [
        *("reference", "agent_1_reference", "reference")
    ]
    assert [two.actor(1, agent) for agent in range(3)] == [
        *("agent_0_turn_2", "agent_1_turn_2", "agent_0_turn_2")
    ]


def test_guards() -> None:
    guarded = maporl_settings("algorithm.guards.min_tokens=4", "algorithm.guards.repeat_length=2")
    assert not breaks_guard(guarded, r"\boxed{7}", [1, 2, 3, 4])
    assert breaks_guard(guarded, r"\boxed{7}", [1, 2, 3])  # too short
    assert breaks_guard(guarded, "7", [1, 2, 3, 4])  # no box
    assert breaks_guard(guarded, r"\boxed{7}", [1, 2] * 4)  # more than three times
    assert not breaks_guard(guarded, r"\boxed{7}", [1, 2] * 3)
    assert not breaks_guard(maporl_settings(*MAPORL[1:]), "7", [1, 2, 3])


def test_turns_that_do_not_learn_are_spoken_by_the_start(questions: ConfigOf) -> None:
    config = questions(*MAPORL, "algorithm.train_turns=[2]", "algorithm.turns=2")
    trainer = build(config)
    assert list(trainer.agents) == ["turn_2"]
    prompts = trainer.components.task.sample(8)
    trainer.components.task.sample = lambda count: prompts  # type: ignore[method-assign]
    trainer.step(0)
    with torch.no_grad():  # a policy that has gone far away
        for parameter in trainer.agents["turn_2"].model.lm.parameters():
            parameter.add_(torch.randn_like(parameter))
    trainer.components.streams.restart("sampling", "length")
    before = [[turn.response for turn in e.turns if turn.round == 0] for e in trainer.episodes]
    trainer.step(1)
    after = [[turn.response for turn in e.turns if turn.round == 0] for e in trainer.episodes]
    assert after == before
    assert {t.agent for e in trainer.episodes for t in e.turns if t.round == 0} == {"reference"}


DISTINCT = [  # no two values are equal, and none is a default
    *MAPORL,
    *("algorithm.agents=3", "algorithm.turns=2", "algorithm.gamma=0.7"),
    *("algorithm.turn_discount=0.5", "algorithm.alpha=[2.0,3.0]", "algorithm.beta=[5.0,7.0]"),
    *("algorithm.guards.penalty=-20.0", "algorithm.guards.boxed=true"),
    "algorithm.guards.min_tokens=2",
]
SCORES = [[0.1, 0.2, 0.4], [0.8, 0.3, 0.6]]  # [turn][debater]
MEANS = [sum(row) / 3 for row in SCORES]


def paid(config: Config, right: list[list[bool]], flawed: tuple[int, int] | None) -> list[float]:
    """Credits of a debate with these scores and right answers, as the trainer assigns them."""
    trainer = build(config, Last())
    turns = [
        Turn("p", "d", t, "", r"\boxed{7}", [1], [3, 4], score=SCORES[t][a], right=right[t][a])
        for t in range(2)
        for a in range(3)
    ]
    if flawed is not None:
        place = flawed[0] * 3 + flawed[1]
        turns[place] = replace(turns[place], response_ids=[5] * 9)  # one token nine times
    trainer.assign_credit([Episode(Prompt("q", "?", "7"), turns)])
    assert [turn.flawed for turn in turns].count(True) == (flawed is not None)
    return [turn.credit or 0.0 for turn in turns]


@pytest.mark.parametrize(
    ("words", "right", "flawed", "expected"),
    [
        # Definition 1: (own + 0.5 x mean of the next turn) / 1.5
        ([], [[False] * 3] * 2, None, [*((s + 0.5 * MEANS[1]) / 1.5 for s in SCORES[0])]),
        (["algorithm.share=individual"], [[False] * 3] * 2, None,
         [(own + 0.5 * later) / 1.5 for own, later in zip(*SCORES, strict=True)]),
        (["algorithm.horizon=last"], [[False] * 3] * 2, None, [MEANS[1]] * 6),
        (["algorithm.horizon=current"], [[False] * 3] * 2, None, [MEANS[0]] * 3 + [MEANS[1]] * 3),
        # Table 1: the first debater turns right beside wrong others
        (["algorithm.horizon=current"], [[False] * 3, [True, False, False]], None,
         [*[MEANS[0]] * 3, MEANS[1] + 2.0]),
        # Table 2: beside the first debater, who is wrong, both others turn right
        (["algorithm.horizon=current"], [[False] * 3, [False, True, True]], None,
         [MEANS[0] + 5.0]),
        # ... with the deviations of the released code: the first turn is paid nothing
        (["algorithm.horizon=current", "algorithm.official_shaping=true"],
         [[True, False, False], [True] * 3], None, [MEANS[0]]),
        # an answer that breaks a guard, alone or in the sums of the turn before
        ([], [[False] * 3] * 2, (1, 1), [(0.1 + 0.5 * MEANS[1]) / 1.5, *[None] * 2, 0.8, -20.0]),
        (["algorithm.guards.scope=propagate"], [[False] * 3] * 2, (1, 1),
         [(0.1 + 0.5 * (0.8 - 20.0 + 0.6) / 3) / 1.5]),
    ],
)  # fmt: skip
def test_the_trainer_pays_by_every_setting(questions, words, right, flawed, expected) -> None:
    """`expected` holds the first credits, by turn and debater; None is not compared."""
    found = paid(questions(*DISTINCT, *words), right, flawed)
    for own, wanted in zip(found, expected, strict=False):
        assert wanted is None or own == pytest.approx(wanted)


@pytest.mark.slow
def test_more_debaters_and_turns_are_evaluated(questions: ConfigOf, tmp_path: Path) -> None:
    config = questions(
        *(*MAPORL, "algorithm.param_sharing=shared", "algorithm.turns=2"),
        *("algorithm.evaluation_turns=3", "evaluation.team=true"),
        *("algorithm.vote_ties=random", "algorithm.unreadable_votes=dropped"),
    )
    trainer = build(config, Last())
    assert 0 < trainer.step(0)["debate/right/turn_1"] < 1
    found, lines = measure(trainer, config, tmp_path)
    assert {f"eval/vote/turn_{t}" for t in (1, 2, 3)} <= found.keys()
    assert trainer.evaluate.team_metrics.args[1] == VoteRule("random", "dropped")
    assert sum(found[f"eval/flow_{a}{b}/team"] for a in "rw" for b in "rw") == pytest.approx(1)
    team = [line for line in lines if line["who"] == "team"]
    assert all(len(line["turns"]) == 9 for line in team)  # three debaters, three turns


@pytest.mark.slow
def test_a_debate_that_ended_is_a_row_nobody_learns_from(questions: ConfigOf) -> None:
    words = [*MAPORL, "algorithm.turns=2", "algorithm.consensus=1.0"]
    trainer = build(questions(*words), Last())
    ended = iter([True, False] * 100)
    debate: Debate = trainer.play.__self__  # type: ignore[attr-defined]
    debate.read = lambda response: 7 if next(ended) else None
    debate.consensus = 0.5
    metrics = trainer.step(0)
    # one of the two debaters' answers could be read: half of them agree, and every debate ends
    assert metrics["debate/ended_early"] == 1.0
    assert "objective/score/turn_2" not in metrics
    assert trainer.agents["turn_2"].updates == 0
    # now only some end: the others' numbers are those of a roll-out without the absent rows
    halves = iter([None, None, 7, 7] * 100)
    debate.read = lambda response: next(halves)
    metrics = trainer.step(1)
    assert metrics["debate/ended_early"] == 0.5
    here = [t for e in trainer.episodes for t in e.turns if t.round == 1 and not t.absent]
    assert len(here) == 8
    assert metrics["objective/score/turn_2"] == pytest.approx(sum(t.score or 0 for t in here) / 8)
    assert trainer.agents["turn_2"].updates == 1
