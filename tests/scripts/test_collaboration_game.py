"""The toy game: the paper's two observations, hand-worked values, and equilibria."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import pytest

from scripts.collaboration_game import (
    EQUILIBRIA,
    Game,
    Strategy,
    collaboration,
    constant,
    disagreements,
    exactly,
    joint,
    observation_2,
    response,
    uniform,
)

GAME = Game(6, uniform(4), 1, 0.5, 0.3)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_the_observations_on_their_grid_ties_included() -> None:
    """The first and the second hold; with the equilibrium on the side of the better answer to a
    coin, the coin's gain counts in the second.
    """
    levels = [n / 8 for n in range(-8, 8)]  # sums without rounding
    rewards = [(col, ind) for col, ind in product(levels, levels) if col < ind]
    printed = [2 * ind - col < 1 for col, ind in rewards]
    assert printed == [observation_2(Game(2, exactly(1), 1, ind, col)) for col, ind in rewards]
    even = [3 * ind - 2 * col <= 1 for col, ind in rewards]
    wrong = sum(one != other for one, other in zip(printed, even, strict=True))
    assert disagreements(1, 8) == {
        "observation_1": (0, 9 * len(rewards)),
        "observation_2": (0, len(rewards)),
        "observation_2_even": (wrong, len(rewards)),
    }


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


def test_a_threshold_of_two_by_hand() -> None:
    # C is 1 or 2; one joint turn brings the synergy in half of the cases, the second for sure
    game = Game(3, uniform(2), 1, 0.5, 0.25)
    assert [game.chance(done) for done in (0, 1)] == [0.5, 1.0]
    always = Strategy(((1.0, 1.0),) * 3, (1.0,) * 3)
    never_after = replace(always, after=(0.0,) * 3)
    assert collaboration(game, always, always) == [1, 1, 1]
    assert collaboration(game, never_after, never_after) == [1, 0.5, 0]
    # turn 2 with one joint turn behind: the last gains 1 - .5 in half of the cases of pi = .5
    best = response(game, constant(game, 0.5), 0)
    assert best.before[1] == (0, 1)  # .5 x .5 x .5 < .25, but .5 x .5 = .25
    # turn 1: to (done 0) .5 + .5 = 1, (done 1) .25 + .5 x 1 + .5 x .5 = 1, synergy: 2
    # .25 + .5 x (.5 x 2 + .5 x 1) + .5 x 1 = 1.5, as much as .5 + 1
    assert best.before[0][0] == 1
    dearer = replace(game, r_col=0.2)
    assert response(dearer, constant(dearer, 0.5), 0).before[0][0] == 0


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


def test_most_collaboration_is_the_largest_fixed_point_of_each_stage() -> None:
    # the map is increasing: from 1 its iterates fall to the largest fixed point
    for col, ind in [(0.0, 0.5), (0.25, 0.5), (0.25, 0.6), (0.4, 0.6), (0.0, 0.7)]:
        game = Game(2, exactly(1), 1, ind, col)
        for tau in (0.02, 0.05, 0.1, 0.3):
            after = tau * math.log(math.exp((1 - ind) / tau) + 1)
            last = tau * math.log(math.exp((col - ind) / tau) + 1)
            x = 1.0
            for _ in range(5_000):
                x = sigmoid((col - ind + x * (after - last)) / tau)
            assert joint(game, tau).before[0][0] == pytest.approx(x, abs=1e-6), (game, tau)


def test_a_game_out_of_reach_is_never_worth_a_try() -> None:
    far = Game(5, exactly(6), 1, 0.5, 0.3)
    for policy in (joint(far, 0.1), response(far, constant(far, 0.9), 0.1)):
        assert collaboration(far, policy, policy) == pytest.approx([sigmoid(-2)] * 5)
