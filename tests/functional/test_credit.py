"""Credit of turns, and what became of right and wrong answers, by hand."""

from collections.abc import Callable, Iterable

import pytest

from cory.algorithms.cory import shared_sum
from cory.episode import Episode, Prompt, Turn, absent_turn
from cory.functional.credit import (
    answer_changes,
    mean_over_agents,
    outcome_decay,
    own_and_later,
    own_score,
    penalise_overlong,
    repeats,
    transition_rates,
)

Rule = Callable[[Iterable[Episode]], None]


def episode(*scores: float | None) -> Episode:
    turns = [
        Turn(f"agent_{i}", f"observer_{i}", 0, "context", "response", [1], [2], score=s)
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
        (mean_over_agents, [[1.75, 1.75], [20 / 3, 20 / 3, 20 / 3], [0.0], []]),
    ],
)
def test_credit(rule: Rule, expected: list[list[float]]) -> None:
    episodes = [episode(1.0, 2.5), episode(-4.0, 8.0, 16.0), episode(0.0), episode()]
    rule(episodes)
    assert [[turn.credit for turn in e.turns] for e in episodes] == expected
    assert episodes[0].turns[0].score == 1.0


# gamma = 0.8, by turns of the winner
EXACT = {
    1: [1],
    2: [0.4444, 0.5556],
    3: [0.2623, 0.3279, 0.4098],
    4: [0.1734, 0.2168, 0.2710, 0.3388],
    5: [0.1218, 0.1523, 0.1904, 0.2380, 0.2975],
}


@pytest.mark.parametrize("turns", EXACT)
def test_worth_by_the_table(turns: int) -> None:
    found = outcome_decay(turns, 0.8)
    assert found == pytest.approx(EXACT[turns], abs=5e-5)
    assert sum(found) == pytest.approx(1)


@pytest.mark.parametrize(
    ("ids", "longest", "times", "found"),
    [
        ([2, 1, 1, 1, 1, 2], 1, 3, True),
        ([1, 1, 1], 1, 3, False),
        ([1, 2] * 4, 1, 3, False),  # longer than what is looked for
        ([9, 1, 2, 1, 2, 1, 2, 1, 2], 2, 3, True),
        ([1, 2, 1, 2, 1, 2, 1], 2, 3, False),  # the fourth is not whole
        ([], 20, 1, False),
    ],
)
def test_runs_of_tokens_are_counted_in_a_row(ids, longest, times, found) -> None:
    assert repeats(ids, longest, times) is found


R, W = True, False


def test_rates_of_one_episode_of_three_agents() -> None:
    found = list(answer_changes([[R, W, W], [R, R, W]]))
    # the second agent turned right beside a split majority: no rate of Table 1 counts it
    assert transition_rates(found) == {
        "flow_rr": pytest.approx(1 / 3),
        "flow_rw": 0.0,
        "flow_wr": pytest.approx(1 / 3),
        "flow_ww": pytest.approx(1 / 3),
        # the first agent was right beside a wrong majority, and stayed right
        "revision_rw_w": 0.0,
        # beside its right answer the wrong majority (W, W) became split: not right
        "influence_wr_r": 0.0,
    }


def test_rates_are_shares_of_their_own_cases() -> None:
    two = [[[W, R], [R, R]], [[W, R], [W, R]], [[R, R], [R, W]], [[W, W], [R, W]]]
    shares = transition_rates([change for episode in two for change in answer_changes(episode)])
    # wrong beside a right other: the first agents of the first two episodes
    assert shares["revision_wr_r"] == pytest.approx(0.5)
    # wrong beside a wrong other: both agents of the last
    assert shares["revision_wr_w"] == pytest.approx(0.5)
    # right beside a right other: both agents of the third
    assert shares["revision_rw_r"] == pytest.approx(0.5)
    # right beside a wrong other: the second agents of the first two
    assert shares["revision_rw_w"] == 0.0
    # the other is wrong, oneself right: the same two, and one of the others turned right
    assert shares["influence_wr_r"] == pytest.approx(0.5)
    # the other is wrong, oneself wrong: both agents of the last; the other of one turned right
    assert shares["influence_wr_w"] == pytest.approx(0.5)
    assert shares["influence_rw_r"] == pytest.approx(0.5)
    assert shares["influence_rw_w"] == 0.0
    flows = [shares[f"flow_{a}{b}"] for a in "rw" for b in "rw"]
    assert sum(flows) == pytest.approx(1.0)
    assert shares["flow_wr"] == pytest.approx(2 / 8)


def test_the_last_tokens_before_the_limit_cost() -> None:
    turns = [Turn("a", "a", 0, "", "", [1], [2] * n, credit=3.0) for n in (1, 6, 7, 9, 10)]
    gone = absent_turn("a", "a", 0)
    penalise_overlong([*turns, gone], limit=10, buffer=4)
    assert [turn.credit for turn in turns] == [3.0, 3.0, 2.75, 2.25, 2.0] and gone.credit is None
