"""Advantages, groups of turns and the scale of scores, by hand."""

import pytest
import torch

from cory.episode import Episode, Prompt, Turn
from cory.functional.advantages import (
    RunningMoments,
    batch_normalised,
    equal_groups,
    equal_prompts,
    group_relative,
    groups_of,
    leave_one_out,
    pool_of,
    scaled_credits,
)
from tests.support.close import assert_close

NAN = float("nan")
# cut by the length limit; ended early with EOS; one token; no token at all
MASK = torch.arange(3) < torch.tensor([3, 2, 1, 0])[:, None]


@pytest.mark.parametrize("value", [0.1, 0.3, 1e6, 0.0])
def test_a_group_of_equal_rewards_has_no_advantage(value: float) -> None:
    """Exactly: three times 0.1 is not 0.3, and a rounding error over no deviation is not small."""
    # the last turns: an absent one, and the only one of its group
    rewards, groups = torch.full((8,), value), torch.tensor([0, 0, 0, 1, 1, 1, -1, 2])
    rewards[3] += 1
    for found in (
        group_relative(rewards, groups, divide_by_std=True),
        group_relative(rewards, groups, divide_by_std=False),
        leave_one_out(rewards, groups),
    ):
        assert found[[0, 1, 2, 6, 7]].tolist() == [0.0] * 5
        assert found[3] > 0 > found[4]


def test_batch_normalised_by_hand() -> None:
    # with discount 0.5 to go: 1 + 1 + 1 = 3, 2 + 2 = 4, 4; 0 + 4 = 4, 8; 0. Mean 23/6
    rewards = torch.tensor([[1.0, 2, 4], [0, 8, NAN], [0, NAN, NAN], [NAN, NAN, NAN]])
    to_go = torch.tensor([3.0, 4, 4, 4, 8, 0])
    expected = (to_go - to_go.mean()) / to_go.std()
    found = batch_normalised(rewards, MASK, gamma=0.5)
    assert_close(found[MASK], expected)
    assert_close(found[~MASK], [0.0] * 6)


def test_equal_groups_are_counted_once_each() -> None:
    # of sizes 3, 2, 1 and 2; the first and the last are equal, the single turn does not count
    groups = torch.tensor([0, 0, 0, 1, 1, 2, 3, 3, -1, -1])
    rewards = torch.tensor([1.0, 1, 1, 0, 1, 5, 2, 2, 1, 7])  # absent turns are no group
    assert_close(equal_groups(rewards, groups), 2 / 3)
    assert equal_groups(rewards[5:6], groups[5:6]) == 0


def turn(agent: str, role: str, round: int = 0, absent: bool = False) -> Turn:
    return Turn(agent, role, round, "", "", [1], [] if absent else [2])


def episode(*turns: Turn) -> Episode:
    # the same text every time: a query that is drawn twice is two queries
    return Episode(Prompt("0", "again"), list(turns))


def test_absent_turns_belong_to_no_group() -> None:
    episodes = [episode(turn("a", "x"), turn("a", "x", 1, absent=gone)) for gone in (True, False)]
    assert groups_of(episodes, "a", 2).tolist() == [0, -1, 0, 1]


def spoken(*credits: float) -> Episode:
    """Policy a is planner, solver, solver again where there are four; b checks last."""
    roles = ["planner", "solver", *["solver"] * (len(credits) - 3)]
    turns = [turn("a", role, number) for number, role in enumerate(roles)] + [turn("b", "checker")]
    for one, credit in zip(turns, credits, strict=True):
        one.credit = credit
    return episode(*turns)


# two samples of one prompt, and two of another
SPOKEN = [spoken(1, 2, 9), spoken(4, 8, 16, 5), spoken(0, 3, 3), spoken(6, 6, 6)]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("turn", [0, 1, 0, 1, 2, 3, 4, 3, 4]),  # the second word of a solver is compared with none
        ("agent", [0, 1, 0, 1, 1, 2, 3, 2, 3]),
        ("prompt", [0, 0, 0, 0, 0, 1, 1, 1, 1]),
        ("episode", [0, 0, 0, 0, 0, 1, 1, 1, 1]),
    ],
)
def test_what_is_compared(by: str, expected: list[int]) -> None:
    assert groups_of(SPOKEN, "a", 2, by).tolist() == expected


def test_a_pool_is_of_all_agents_or_of_whole_episodes() -> None:
    gone = episode(turn("a", "planner", absent=True), turn("b", "checker"))
    gone.turns[1].credit = 7
    everyone = pool_of([*SPOKEN[:2], gone], 2, "prompt")
    assert everyone is not None
    assert everyone.credits.tolist() == [1, 2, 9, 4, 8, 16, 5, 7]
    assert everyone.groups.tolist() == [0] * 7 + [1]
    own, groups = torch.tensor([1.0, 2, 4, 8, 16, 50]), torch.tensor([0, 0, 0, 0, 0, -1])
    alone = [x - (45 - x) / 6 for x in (1, 2, 4, 8, 16)]
    assert_close(leave_one_out(own, groups, everyone), [*alone, 0.0])
    joint = pool_of([*SPOKEN, gone, gone], 2, "episode")
    assert joint is not None
    assert joint.credits.tolist() == [1, 4, 0, 6, 7, 7]
    assert joint.groups.tolist() == [0, 0, 1, 1, 2, 2]
    # an episode counts once, however often it has turns
    turns = torch.tensor([1.0, 1, 4, 4, 4, 7]), torch.tensor([0, 0, 0, 0, 0, 2])
    assert_close(leave_one_out(*turns, joint), [-3.0, -3.0, 3.0, 3.0, 3.0, 0.0])
    assert pool_of(SPOKEN, 2, "turn") is pool_of(SPOKEN, 2, "agent") is None
    assert_close(equal_groups(*joint), 1 / 3)


def test_a_prompt_teaches_nobody_where_all_groups_are_equal() -> None:
    same = [spoken(1, 2, 9), spoken(1, 2, 9)]
    of_b, of_a = [same[0], spoken(1, 2, 8)], [same[0], spoken(0, 2, 9)]
    episodes = [*same, *of_b, *of_a, spoken(4, 4, 4), spoken(4, 4, 4)]
    for agents in (["a", "b"], ["a", "b", "silent"]):  # nobody has asked that one
        assert equal_prompts(episodes, agents, 2, "turn") == [0, 3]
    assert equal_prompts(episodes, ["a"], 2, "agent") == [0, 1, 3]
    assert equal_prompts(episodes, ["b"], 2, "turn") == [0, 2, 3]
    assert equal_prompts(episodes, ["a"], 2, "prompt") == [3]  # 1 and 2 differ within the pool
    assert equal_prompts(episodes, ["a", "b"], 2, "episode") == [0, 1, 3]


# mean 2, population variance 8 / 3, unbiased deviation 2
SEEN = [0.0, 2.0, 4.0]


def moments_of(*batches: list[float]) -> RunningMoments:
    moments = RunningMoments()
    for batch in batches:
        moments.update(batch)
    return moments


@pytest.mark.parametrize(
    ("scaling", "clip", "expected"),
    [
        ("none", None, [6.0, 2.0, -4.0]),
        ("none", 3.0, [3.0, 2.0, -3.0]),
        ("scale", None, [3.0, 1.0, -2.0]),  # over 2
        ("scale", 1.5, [1.5, 1.0, -1.5]),  # clipped after scaling
        ("normalise", None, [2.0, 0.0, -3.0]),  # less 2, over 2
        ("normalise", 2.5, [2.0, 0.0, -2.5]),
    ],
)
def test_scaling(scaling: str, clip: float | None, expected: list[float]) -> None:
    assert_close(scaled_credits([6.0, 2.0, -4.0], moments_of(SEEN), scaling, clip), expected)


def test_equal_numbers_that_round_differently_count_as_a_deviation_of_one() -> None:
    # three times 0.1 has a variance of about 1e-34 in binary fractions
    moments = RunningMoments()
    moments.update([0.1] * 3)
    moments.update([0.1] * 5)
    assert_close(scaled_credits([0.1], moments, "scale", None), [0.1])
