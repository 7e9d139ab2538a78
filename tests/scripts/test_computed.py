"""The toy game and the skill model: hand-worked values, and equilibria."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from scripts.collaboration_game import (
    EQUILIBRIA,
    Game,
    collaboration,
    constant,
    exactly,
    joint,
    response,
    uniform,
)
from scripts.skills import (
    ratio,
    specialities,
    trajectory,
    update,
)

GAME = Game(6, uniform(4), 1, 0.5, 0.3)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_two_turns_by_hand_against_a_fixed_opponent() -> None:
    game, tau, pi = Game(2, exactly(1), 1, 0.5, 0.25), 0.5, 0.6
    # turn 2: logits 1 / .5 against .5 / .5 with synergy, .25 / .5 against .5 / .5 without
    after, last = sigmoid(1.0), sigmoid(-0.5)
    worth_after = 0.5 * math.log(math.exp(2) + math.exp(1))
    worth_last = 0.5 * math.log(math.exp(0.5) + math.exp(1))
    # turn 1: .25 + .6 worth_after + .4 worth_last against .5 + worth_last
    first = sigmoid((0.25 + 0.6 * (worth_after - worth_last) - 0.5) / 0.5)
    own = response(game, constant(game, pi), tau)
    assert own.before[0][0] == pytest.approx(first)
    assert own.before[1][0] == pytest.approx(last)
    assert own.after == pytest.approx((after, after))
    reached = first * pi
    assert collaboration(game, own, constant(game, pi)) == pytest.approx(
        [first, reached * after + (1 - reached) * last]
    )


@pytest.mark.parametrize("equilibrium", EQUILIBRIA)
@pytest.mark.parametrize("tau", [0.01, 0.03, 0.1, 0.5])
@pytest.mark.parametrize("threshold", [uniform(4), exactly(3), (0.5, 0.0, 0.0, 0.5)])
def test_both_answer_each_other_in_an_equilibrium(
    tau: float, threshold: tuple[float, ...], equilibrium: str
) -> None:
    game = replace(GAME, threshold=threshold)
    own = joint(game, tau, equilibrium)
    answer = response(game, own, tau)
    for mine, best in zip((*own.before, own.after), (*answer.before, answer.after), strict=True):
        assert mine == pytest.approx(best, abs=1e-9)


def test_eq_2_by_hand() -> None:
    # .5 * 1.5, .3 * 1.3, .2 * 1.2 and their sum, 1.38
    assert update([0.5, 0.3, 0.2]) == pytest.approx([0.75 / 1.38, 0.39 / 1.38, 0.24 / 1.38])
    # before the first division by the sum: eq. 2 divides by it itself
    assert update([1.0, 0.6, 0.4]) == pytest.approx(update([0.5, 0.3, 0.2]))
    assert ratio([0.5, 0.3, 0.2], 0) == pytest.approx(1.5 / 1.38)  # eq. 3
    curve = trajectory([0.5, 0.3, 0.2], 2)
    assert curve[1] == update(curve[0]) and curve[2] == update(curve[1])
    assert curve[0] == [0.5, 0.3, 0.2] and len(curve) == 3


def test_three_models_often_choose_the_same_topic() -> None:
    """Independently and with equal chances: 1/9, 6/9, 2/9 for one, two, three different topics."""
    found = specialities(2000, 3, 3, 500, 15, seed=0)
    assert found == pytest.approx({1: 1 / 9, 2: 6 / 9, 3: 2 / 9}, abs=0.04)
