"""Which responses are right, where a reward does not say."""

from __future__ import annotations

from typing import Any, cast

from cory.episode import Episode, Prompt, Turn
from cory.tasks import Form
from cory.tasks.judged import judge_rest


class SameText:
    """A form whose answers are texts."""

    def is_right(self, response: str, answer: str) -> bool:
        return response == answer


def turn(response: str, **more: Any) -> Turn:
    return Turn("a", "debater_0", 0, "", response, [1], [1] if response else [], **more)


def test_what_a_reward_has_not_judged_the_task_judges() -> None:
    told = [turn("7"), turn("8"), turn("7", right=False), turn("")]
    open_end = [turn("7")]
    known = Episode(Prompt("p", "?", answer="7"), told)
    judge_rest(cast(Form, SameText()), [known, Episode(Prompt("q", "?"), open_end)])
    assert [one.right for one in told] == [True, False, False, None]
    assert open_end[0].right is None
