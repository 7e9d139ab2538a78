"""reward=exact_match and what the task judges; reward=sum: several rewards, weighted and added."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from cory import distributed
from cory.config import ExactMatchConfig, PythonRewardConfig, SumConfig
from cory.episode import Episode, Prompt, Turn, further_columns
from cory.rewards import RunFacts, WeightedSum
from cory.rewards.exact_match import ExactMatch
from cory.tasks import Form
from cory.tasks.answers import judge_rest
from tests.support.building import CLASSIFIER, build, measure
from tests.support.speaking import solo_episodes


class LastDigit:
    """A task whose answer is a response's last character."""

    def is_right(self, response: str, answer: str) -> bool:
        return response[-1:] == answer


def test_exact_match_judges_every_turn_by_its_own_prompt(monkeypatch) -> None:
    turns = [Turn(agent, "r", 0, "", text, [1], [2]) for agent, text in (("x", "so 7"), ("y", "8"))]
    scored = [
        Episode(Prompt("0", "3 + 4", answer="7"), turns),
        Episode(Prompt("1", "4 + 4", answer="8"), [Turn("x", "r", 0, "", "8", [1], [2])]),
    ]
    task: Any = LastDigit()
    ExactMatch(ExactMatchConfig(name="exact_match"), task, None, None).score(scored)
    assert [t.score for e in scored for t in e.turns] == [1.0, 0.0, 1.0]
    # whatever this process finds, the first one's verdict counts; what has a score, keeps it
    scored[0].turns[0].score = scored[1].turns[0].score = None
    monkeypatch.setattr(distributed, "first_works", lambda work: [not right for right in work()])
    ExactMatch(ExactMatchConfig(name="exact_match"), task, None, None).score(scored)
    assert [t.right for e in scored for t in e.turns] == [False, False, False]


def turn(response: str, **more: Any) -> Turn:
    return Turn("a", "debater_0", 0, "", response, [1], [1] if response else [], **more)


def test_what_a_reward_has_not_judged_the_task_judges() -> None:
    told = [turn("7"), turn("8"), turn("7", right=False), turn("")]
    open_end = [turn("7")]
    known = Episode(Prompt("p", "?", answer="7"), told)
    judge_rest(cast(Form, LastDigit()), [known, Episode(Prompt("q", "?"), open_end)])
    assert [one.right for one in told] == [True, False, False, None]
    assert open_end[0].right is None


LENGTH = """
def score(completions, log_metric, trainer_state, **kwargs):
    log_metric("step", trainer_state.global_step)
    return [len(text) for text in completions]

def where_short(completions, **kwargs):
    return [1.0 if len(text) < 4 else None for text in completions]
"""


@pytest.fixture
def mine(tmp_path: Path) -> Callable[[str], PythonRewardConfig]:
    """`mine(name)`: the settings of a function of LENGTH."""
    (tmp_path / "mine.py").write_text(LENGTH)
    return lambda name: PythonRewardConfig(name="python", function=f"{tmp_path}/mine.py:{name}")


def sum_of(weights: dict[str, Any], **parts: Any) -> WeightedSum:
    settings: Any = SumConfig(name="sum", parts=parts, weights=weights)
    task: Any = None
    return WeightedSum(settings, task, torch.device("cpu"), RunFacts(Path(), 9))


def test_scores_are_added_with_their_weights(mine, tiny_judge) -> None:
    tone = CLASSIFIER.replace(path=tiny_judge)
    rows = solo_episodes("good", "a bad film")
    reward = sum_of({"length": 0.25, "tone": -2}, length=mine("score"), tone=tone)
    reward.at(4)
    reward.score(rows)
    apart = solo_episodes("good", "a bad film")
    sum_of({}, tone=tone).score(apart)
    for row, alone, length in zip(rows, apart, (4.0, 10.0), strict=True):
        (turn,), (other,) = row.turns, alone.turns
        assert turn.parts == {"length": length, "tone": other.score}
        assert other.score is not None
        assert turn.score == pytest.approx(0.25 * length - 2 * other.score)
        assert further_columns(turn) == {"parts": turn.parts}
    # parts follow the run, and log under their names
    assert reward.metrics() == {"reward/length/logged/step": 4} and reward.metrics() == {}


@pytest.mark.slow
def test_a_run_logs_each_part(config_of, mine, tmp_path) -> None:
    config = config_of()
    tone = CLASSIFIER.replace(path=config.reward.path)
    config.reward = SumConfig(
        name="sum", parts={"tone": tone, "short": mine("where_short")}, weights={"short": 3}
    )
    trainer = build(config)
    metrics = trainer.step(0)
    turns = [turn for episode in trainer.episodes for turn in episode.turns]
    for agent in ("agent_0", "agent_1"):
        own = [turn for turn in turns if turn.agent == agent]
        tones = [turn.parts["tone"] or 0.0 for turn in own]
        assert metrics[f"reward/tone/{agent}"] == pytest.approx(sum(tones) / len(own))
        extra = sum(3.0 for turn in own if turn.parts["short"] is not None)
        total = metrics[f"objective/score/{agent}"]
        assert total == pytest.approx((sum(tones) + extra) / len(own), abs=1e-5)
        applies = any(turn.parts["short"] is not None for turn in own)
        assert metrics.get(f"reward/short/{agent}") == (1.0 if applies else None)
    found, lines = measure(trainer, config, tmp_path)
    scored = [turn["parts"]["tone"] for line in lines if line["who"] == "agent_1"
              for turn in line["turns"] if line["kind"] == "evaluation"]  # fmt: skip
    assert found["eval/reward/tone/agent_1"] == pytest.approx(sum(scored) / len(scored))
