"""What became of right and wrong answers, by hand."""

from __future__ import annotations

import pytest

from cory.functional.credit import Change, answer_changes, transition_rates

R, W = True, False


def test_every_agent_at_every_turn_but_the_first() -> None:
    assert list(answer_changes([[R, W], [W, W], [W, R]])) == [
        Change(1, 0, R, W, W, W),
        Change(1, 1, W, W, R, W),
        Change(2, 0, W, W, W, R),
        Change(2, 1, W, R, W, W),
    ]
    assert list(answer_changes([[R, W]])) == []


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


def test_nothing_to_count() -> None:
    assert transition_rates([]) == {}
