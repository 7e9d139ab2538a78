"""MAPoRL's credit, worked by hand from Definition 1 and Tables 1 and 2."""

from typing import Any

import pytest

from cory.algorithms.maporl import debate_credit
from cory.config import MaporlConfig
from cory.config.debate import GuardConfig
from cory.episode import Episode, Prompt, Turn
from cory.functional.credit import incentives

R, W = True, False
ALPHA, BETA = (2.0, 3.0), (5.0, 7.0)
PLAIN: dict[str, Any] = {
    "agents": 2,
    "horizon": "discounted_sum",
    "share": "all",
    "turn_discount": 0.5,
    "alpha": [0.0, 0.0],
    "beta": [0.0, 0.0],
    "official_shaping": False,
}


def turn(score: float, right: bool = False, flawed: bool = False) -> Turn:
    return Turn("p", "d", 0, "", "x", [1], [1], score=score, right=right, flawed=flawed)


def absent() -> Turn:
    return Turn("p", "d", 0, "", "", [0], [])


def debate(*rows: list[Turn]) -> Episode:
    return Episode(Prompt("q", "?", "7"), [turn for row in rows for turn in row])


def credits(episode: Episode, scope: str = "own", **changes: Any) -> list[float | None]:
    guards = GuardConfig.model_construct(penalty=-10.0, scope=scope)
    config = MaporlConfig.model_construct(**{**PLAIN, "guards": guards, **changes})
    debate_credit(config, [episode])
    return [turn.credit for turn in episode.turns]


# Three agents: the first is the one that the tables speak of, the others are the majority.
@pytest.mark.parametrize(
    ("before", "after", "beside", "table_1", "table_2"),
    [
        (R, W, R, -3.0, -7.0),
        (R, W, W, -2.0, -5.0),
        (W, R, W, 2.0, 5.0),
        (W, R, R, 3.0, 7.0),
        (R, R, W, 0.0, 0.0),
        (W, W, R, 0.0, 0.0),
    ],
)
def test_shaping(before: bool, after: bool, beside: bool, table_1: float, table_2: float) -> None:
    # Table 1 pays an agent at the later turn for its own change beside the majority
    right = [[before, beside, beside], [after, beside, beside]]
    found = incentives(right, ALPHA, (0.0, 0.0), official=False)
    assert found[0] == [0.0] * 3 and found[1][0] == table_1
    # Table 2 pays it at the earlier turn for the majority's change beside it
    right = [[beside, before, before], [beside, after, after]]
    found = incentives(right, (0.0, 0.0), BETA, official=False)
    assert found[0][0] == table_2 and found[1] == [0.0] * 3


def test_a_split_majority_pays_nothing() -> None:
    assert incentives([[W, R, W], [R, R, W]], ALPHA, (0.0, 0.0), False)[1][0] == 0.0
    assert incentives([[R, W, W], [R, R, W]], (0.0, 0.0), BETA, False)[0][0] == 0.0
    assert incentives([[W], [R]], ALPHA, BETA, False) == [[0.0], [0.0]]  # nobody else is there


@pytest.mark.parametrize(
    ("before", "after", "beside", "alpha", "beta"),
    [(W, R, W, 3.0, -5.0), (W, R, R, 2.0, -7.0), (R, W, R, -3.0, 5.0), (R, W, W, -2.0, 7.0)],
)
def test_the_released_code_swaps_and_inverts(before, after, beside, alpha, beta) -> None:
    def first_agent(right: list[list[bool]], *weights: tuple[float, float]) -> list[float]:
        return [row[0] for row in incentives(right, *weights, official=True)]

    own = [[before, beside], [after, beside]]
    assert first_agent(own, ALPHA, (0.0, 0.0)) == [0.0, alpha]
    others = [[beside, before], [beside, before], [beside, after]]
    assert first_agent(others, (0.0, 0.0), BETA) == [0.0, beta, 0.0]
    assert first_agent(others[1:], (0.0, 0.0), BETA) == [0.0, 0.0]  # nothing at the first turn
    # nobody else is there: alpha_1
    assert first_agent([[before], [after]], ALPHA, BETA) == [0.0, 3.0 if after else -3.0]


def test_two_agents_and_three_turns_end_to_end() -> None:
    """Scores of a verifier and right answers; discount 0.5, alpha (2, 3), beta (5, 7)."""
    episode = debate(
        [turn(0.2, W), turn(0.6, R)], [turn(0.4, R), turn(1.0, R)], [turn(0.0, W), turn(0.8, R)]
    )
    assert credits(episode, alpha=ALPHA, beta=BETA) == pytest.approx(
        [
            0.65 / 1.75,  # the other stayed right
            1.05 / 1.75 + 7.0,  # right, and the other turned right
            0.6 / 1.5 + 3.0,  # turned right beside a right other; that one stayed right
            (1.0 + 0.5 * 0.4) / 1.5 - 7.0,  # right, and the other turned wrong
            0.0 - 3.0,  # turned wrong beside a right other
            0.8,
        ]
    )
    assert [turn.bonus for turn in episode.turns] == [0.0, 7.0, 3.0, -7.0, -3.0, 0.0]


SPREAD = 0.5 * (-10.0 + 1.0) / 2  # the penalised second round, discounted


@pytest.mark.parametrize(
    ("horizon", "share", "scope", "flawed", "expected"),
    [
        # the turn before is paid as if nothing had happened
        ("discounted_sum", "all", "own", 2, [0.55 / 1.5, 0.95 / 1.5, -10.0, 1.0]),
        ("discounted_sum", "all", "propagate", 2,
         [(0.2 + SPREAD) / 1.5, (0.6 + SPREAD) / 1.5, -10.0, 1.0]),
        # nor is a penalty shared within its round
        ("current", "all", "own", 2, [0.4, 0.4, (-10.0 + 1.0) / 2, (0.4 + 1.0) / 2]),
        # where only the last turn pays, it stands for the agent's own score there, in that credit
        ("last", "individual", "own", 0, [-10.0, 1.0, 0.4, 1.0]),
        ("last", "all", "own", 0, [(-10.0 + 1.0) / 2, 0.7, 0.7, 0.7]),
        # as the released code has it, the earlier answer's score is never looked at
        ("last", "individual", "propagate", 0, [0.4, 1.0, 0.4, 1.0]),
        ("last", "all", "propagate", 0, [0.7, 0.7, 0.7, 0.7]),
    ],
)  # fmt: skip
def test_penalties(horizon, share, scope, flawed, expected) -> None:
    episode = debate([turn(0.2), turn(0.6)], [turn(0.4), turn(1.0)])
    episode.turns[flawed].flawed = True
    assert credits(episode, scope, horizon=horizon, share=share) == pytest.approx(expected)


def test_a_debate_that_ended_early_counts_the_turns_that_it_had() -> None:
    episode = debate([turn(0.2), turn(0.6)], [turn(0.4), turn(1.0)], [absent(), absent()])
    found = credits(episode)
    assert found[:4] == pytest.approx([0.55 / 1.5, 0.95 / 1.5, 0.4, 1.0])
    assert found[4:] == [None, None]
