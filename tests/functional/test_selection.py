"""What agents learn from debates: filters and proportions, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from cory.functional.votes import mix_critic_debates, select

# six problems of two agents and two turns: [problem][turn][agent]
DEBATES = [
    [["a", "a"], ["a", "a"]],  # both agree from the start
    [["a", "b"], ["b", "b"]],  # agent 0 is corrected
    [["a", "b"], ["a", "b"]],  # a tie, which the vote decided for a
    [[None, "a"], ["a", None]],  # unparsable first, then corrected; and the other way round
    [["b", "a"], ["a", "b"]],  # agent 1 leaves what was right
    [[None, None], [None, None]],  # nothing can be read
]
LABELS = ["a", "b", "a", "a", "a", None]


def test_filters_by_hand() -> None:
    first, second = (select(DEBATES, LABELS, agent) for agent in (0, 1))
    assert (first.generation, first.corrected, first.kept) == ([0, 2], [1, 3, 4], [0, 2])
    assert (second.generation, second.corrected, second.kept) == ([0, 1, 3, 4], [], [0, 1])


def test_with_three_turns_the_first_and_the_last_count() -> None:
    debates = [[["a"], ["b"], ["a"]], [["b"], ["a"], ["a"]], [["a"], ["a"], ["b"]]]
    found = select(debates, ["a", "a", "a"], 0)
    assert (found.generation, found.corrected, found.kept) == ([0, 2], [1], [0])


@pytest.mark.parametrize(
    ("corrected", "kept", "share", "counts"),
    [
        (4, 10, 0.5, (4, 4)),
        (10, 3, 0.75, (9, 3)),
        (3, 7, 0.3, (3, 7)),  # 0.3 * 10 is not 3 in floats
        (5, 9, 0.0, (0, 9)),
        (0, 9, 0.5, (0, 0)),
    ],
)
def test_proportions(corrected: int, kept: int, share: float, counts: tuple[int, int]) -> None:
    fixed, same = list(range(corrected)), list(range(100, 100 + kept))
    found = mix_critic_debates(fixed, same, share, np.random.default_rng(0))
    assert (sum(n < 100 for n in found), sum(n >= 100 for n in found)) == counts
    assert len(set(found)) == len(found) and set(found) <= {*fixed, *same}


def test_what_there_is_too_much_of_is_drawn() -> None:
    drawn = {
        tuple(mix_critic_debates([1], range(100, 120), 0.5, np.random.default_rng(seed)))
        for seed in range(20)
    }
    assert len(drawn) > 5
