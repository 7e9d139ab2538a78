"""reward=exact_match, and what the task judges where the reward does not."""

from __future__ import annotations

from typing import Any, cast

import pytest

from cory import distributed
from cory.config import ExactMatchConfig
from cory.episode import Episode, Prompt, Turn
from cory.rewards.exact_match import ExactMatch
from cory.tasks import Form
from cory.tasks.answers import judge_rest


class LastDigit:
    """A task whose answer is a response's last character."""

    def is_right(self, response: str, answer: str) -> bool:
        return response[-1:] == answer


def test_exact_match_judges_every_turn_by_its_own_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = [Turn(agent, "r", 0, "", text, [1], [2]) for agent, text in (("x", "so 7"), ("y", "8"))]
    scored = [
        Episode(Prompt("0", "3 + 4", answer="7"), turns),
        Episode(Prompt("1", "4 + 4", answer="8"), [Turn("x", "r", 0, "", "8", [1], [2])]),
    ]
    task: Any = LastDigit()
    ExactMatch(ExactMatchConfig(name="exact_match"), task, None, None).score(scored)
    assert [t.score for e in scored for t in e.turns] == [1.0, 0.0, 1.0]
    # whatever this process finds, the first one's verdict counts
    monkeypatch.setattr(distributed, "first_works", lambda work: [not right for right in work()])
    ExactMatch(ExactMatchConfig(name="exact_match"), task, None, None).score(scored)
    assert [t.right for e in scored for t in e.turns] == [False, True, False]


def turn(response: str, **more: Any) -> Turn:
    return Turn("a", "debater_0", 0, "", response, [1], [1] if response else [], **more)


def test_what_a_reward_has_not_judged_the_task_judges() -> None:
    told = [turn("7"), turn("8"), turn("7", right=False), turn("")]
    open_end = [turn("7")]
    known = Episode(Prompt("p", "?", answer="7"), told)
    judge_rest(cast(Form, LastDigit()), [known, Episode(Prompt("q", "?"), open_end)])
    assert [one.right for one in told] == [True, False, False, None]
    assert open_end[0].right is None
