from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from cory.episode import Episode, Prompt, Turn
from cory.functional.credit import own_and_later, own_score, shared_mean, shared_sum

Rule = Callable[[Iterable[Episode]], None]
RULES = pytest.mark.parametrize("rule", [own_score, shared_sum, shared_mean, own_and_later])


def episode(*scores: float | None) -> Episode:
    turns = [
        Turn(f"agent_{i}", "pioneer", 0, "context", "response", [1], [2], score=s)
        for i, s in enumerate(scores)
    ]
    return Episode(Prompt("0", "text"), turns)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (own_score, [[1.0, 2.5], [-4.0, 8.0, 16.0], [0.0], []]),
        # 1 + 2.5;  -4 + 8 + 16;  nothing crosses from one episode to the next
        # 1 + 2.5, 2.5;  -4 + 8 + 16, 8 + 16, 16
        (own_and_later, [[3.5, 2.5], [20.0, 24.0, 16.0], [0.0], []]),
        (shared_sum, [[3.5, 3.5], [20.0, 20.0, 20.0], [0.0], []]),
        (shared_mean, [[1.75, 1.75], [20 / 3, 20 / 3, 20 / 3], [0.0], []]),
    ],
)
def test_credit(rule: Rule, expected: list[list[float]]) -> None:
    episodes = [episode(1.0, 2.5), episode(-4.0, 8.0, 16.0), episode(0.0), episode()]
    rule(episodes)
    assert [[turn.credit for turn in e.turns] for e in episodes] == expected
    assert episodes[0].turns[0].score == 1.0


@RULES
def test_a_turn_without_a_score_is_an_error(rule: Rule) -> None:
    with pytest.raises(ValueError, match="agent_1"):
        rule([episode(1.0, None)])
