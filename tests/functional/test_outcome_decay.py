"""What each utterance of a winner is worth, and how much games and roles weigh."""

from __future__ import annotations

import pytest

from cory.functional.credit import outcome_decay
from cory.functional.offline import role_weights, utterances_per_game

# gamma = 0.8, by turns of the winner
EXACT = {
    1: [1],
    2: [0.4444, 0.5556],
    3: [0.2623, 0.3279, 0.4098],
    4: [0.1734, 0.2168, 0.2710, 0.3388],
    5: [0.1218, 0.1523, 0.1904, 0.2380, 0.2975],
}
PRINTED_SUMS = {1: 0.556, 2: 0.738, 3: 0.827, 4: 0.878, 5: 0.911}


@pytest.mark.parametrize("turns", EXACT)
def test_worth_by_the_table(turns: int) -> None:
    found = outcome_decay(turns, 0.8, "exact")
    assert found == pytest.approx(EXACT[turns], abs=5e-5)
    assert sum(found) == pytest.approx(1)
    # the printed normaliser pays less than one, in the same proportions
    share = PRINTED_SUMS[turns]
    expected = [share * worth for worth in found]
    assert outcome_decay(turns, 0.8, "printed") == pytest.approx(expected, abs=5e-4)


def test_role_weights_of_a_reproduction() -> None:
    """31,273 games won by attackers and 2,700 by defenders: 0.543 and 6.29."""
    found = role_weights({"attacker": 31_273, "defender": 2_700})
    assert found["attacker"] == pytest.approx(0.543, abs=5e-4)
    assert found["defender"] == pytest.approx(6.29, abs=5e-3)


def test_a_role_that_never_wins_has_no_weight() -> None:
    assert role_weights({"attacker": 4, "defender": 0}) == {"attacker": 0.5}


def test_a_mean_over_utterances_becomes_one_over_games() -> None:
    losses = [[1.0, 2.0, 3.0], [4.0]]  # of two games
    flat = [loss for game in losses for loss in game]
    mean = sum(loss * utterances_per_game(4, 2) for loss in flat) / len(flat)
    assert mean == pytest.approx((6 + 4) / 2)
