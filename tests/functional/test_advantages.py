"""Advantages, groups of turns and the scale of scores, by hand."""

from __future__ import annotations

import pytest
import torch

from cory.episode import Episode, Prompt, Turn
from cory.functional.advantages import (
    RunningMoments,
    batch_normalised,
    equal_groups,
    equal_prompts,
    gae,
    group_relative,
    groups_of,
    kl_penalised_rewards,
    leave_one_out,
    pool_of,
    scaled_credits,
)
from tests.support.close import assert_close

NAN = float("nan")
# cut by the length limit; ended early with EOS; one token; no token at all
MASK = torch.arange(3) < torch.tensor([3, 2, 1, 0])[:, None]
# what lies outside the mask must not matter
KL = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, NAN], [6.0, NAN, NAN], [NAN, NAN, NAN]])
CREDITS = torch.tensor([10.0, 20.0, 30.0, 40.0])


def test_kl_is_taken_off_every_real_token_and_credit_sits_on_the_last() -> None:
    # coefficient 0.5: -0.5 * KL, and on the last token credit - 0.5 * KL
    expected = [[-0.5, -1.0, 8.5], [-2.0, 17.5, 0.0], [27.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    assert_close(kl_penalised_rewards(CREDITS, KL, MASK, kl_coef=0.5), expected)


def test_gae_by_hand() -> None:
    # gamma 0.5, lambda 0.8, product 0.4; rewards 1, 2, 4; values 1, 1, 2
    # delta = 1 + 0.5 - 1 = 0.5;  2 + 1 - 1 = 2;  4 + 0 - 2 = 2
    # A = 0.5 + 0.4 * 2.8 = 1.62;  2 + 0.4 * 2 = 2.8;  2
    mask = torch.ones(1, 3, dtype=torch.bool)
    rewards, values = torch.tensor([[1.0, 2.0, 4.0]]), torch.tensor([[1.0, 1.0, 2.0]])
    # the same, ended early: whatever the row holds behind its end, the value there is 0
    mask = torch.cat([mask, torch.tensor([[True, False, False]])])
    rewards = torch.cat([rewards, torch.tensor([[3.0, NAN, 99.0]])])
    values = torch.cat([values, torch.tensor([[1.0, -77.0, NAN]])])
    advantages, returns = gae(rewards, values, mask, gamma=0.5, gae_lambda=0.8)
    assert_close(advantages, [[1.62, 2.8, 2.0], [2.0, 0.0, 0.0]])
    assert_close(returns, [[2.62, 3.8, 4.0], [3.0, 0.0, 0.0]])


# two groups of three and two, in any order, and an absent turn whose number must not matter
GROUPS = torch.tensor([0, 1, 0, -1, 1, 0])
REWARDS = torch.tensor([1.0, 10.0, 2.0, 99.0, 4.0, 6.0])


def test_group_relative_by_hand() -> None:
    # group 0: 1, 2, 6, mean 3; squares 4 + 1 + 9 = 14, over 2 is 7. Group 1: 10, 4, mean 7; 18
    plain = [-2.0, 3.0, -1.0, 0.0, -3.0, 3.0]
    assert_close(group_relative(REWARDS, GROUPS, divide_by_std=False), plain)
    std = [7**0.5, 18**0.5, 7**0.5, 1.0, 18**0.5, 7**0.5]
    expected = [one / (s + 1e-4) for one, s in zip(plain, std, strict=True)]
    assert_close(group_relative(REWARDS, GROUPS, divide_by_std=True), expected)


def test_leave_one_out_by_hand() -> None:
    # 1 - (2 + 6) / 2;  10 - 4;  2 - (1 + 6) / 2;  absent;  4 - 10;  6 - (1 + 2) / 2
    assert_close(leave_one_out(REWARDS, GROUPS), [-3.0, 6.0, -1.5, 0.0, -6.0, 4.5])


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


def test_single_turns_are_grouped_by_query() -> None:
    episodes = [episode(turn("a", "solo")) for _ in range(6)]
    assert groups_of(episodes, "a", 3).tolist() == [0, 0, 0, 1, 1, 1]
    assert groups_of(episodes, "a", 1).tolist() == [0, 1, 2, 3, 4, 5]
    assert groups_of(episodes, "b", 3).tolist() == []


def test_a_policy_that_speaks_for_all_is_compared_with_its_role_and_round() -> None:
    """Two debaters over two rounds: four groups for each query, in the order of the turns."""
    turns = [turn("a", role, round) for round in (0, 1) for role in ("debater_0", "debater_1")]
    found = groups_of([episode(*turns) for _ in range(4)], "a", 2).tolist()
    assert found == [0, 1, 2, 3] * 2 + [4, 5, 6, 7] * 2


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
    """Deviations of 1, 2, 9, 4, 8, 16, 5 (mean 45 / 7) and of the episodes' 1 and 4, 0 and 6."""
    gone = episode(turn("a", "planner", absent=True), turn("b", "checker"))
    gone.turns[1].credit = 7
    everyone = pool_of([*SPOKEN[:2], gone], 2, "prompt")
    assert everyone is not None
    assert everyone.credits.tolist() == [1, 2, 9, 4, 8, 16, 5, 7]
    assert everyone.groups.tolist() == [0] * 7 + [1]
    own, groups = torch.tensor([1.0, 2, 4, 8, 16, 50]), torch.tensor([0, 0, 0, 0, 0, -1])
    deviation = (sum((x - 45 / 7) ** 2 for x in (1, 2, 9, 4, 8, 16, 5)) / 6) ** 0.5
    above = [x - 45 / 7 for x in (1, 2, 4, 8, 16)]
    assert_close(group_relative(own, groups, everyone, divide_by_std=False), [*above, 0.0])
    expected = [x / (deviation + 1e-4) for x in above]
    assert_close(group_relative(own, groups, everyone, divide_by_std=True), [*expected, 0.0])
    alone = [x - (45 - x) / 6 for x in (1, 2, 4, 8, 16)]
    assert_close(leave_one_out(own, groups, everyone), [*alone, 0.0])
    joint = pool_of([*SPOKEN, gone, gone], 2, "episode")
    assert joint is not None
    assert joint.credits.tolist() == [1, 4, 0, 6, 7, 7]
    assert joint.groups.tolist() == [0, 0, 1, 1, 2, 2]
    # an episode counts once, however often it has turns
    turns = torch.tensor([1.0, 1, 4, 4, 4, 7]), torch.tensor([0, 0, 0, 0, 0, 2])
    found = group_relative(*turns, joint, divide_by_std=False)
    assert_close(found, [-1.5, -1.5, 1.5, 1.5, 1.5, 0.0])
    assert_close(leave_one_out(*turns, joint), [-3.0, -3.0, 3.0, 3.0, 3.0, 0.0])
    assert pool_of(SPOKEN, 2, "turn") is pool_of(SPOKEN, 2, "agent") is None
    assert_close(equal_groups(*joint), 1 / 3)


def test_a_prompt_teaches_nobody_where_all_groups_are_equal() -> None:
    same = [spoken(1, 2, 9), spoken(1, 2, 9)]
    of_b, of_a = [same[0], spoken(1, 2, 8)], [same[0], spoken(0, 2, 9)]
    episodes = [*same, *of_b, *of_a, spoken(4, 4, 4), spoken(4, 4, 4)]
    assert equal_prompts(episodes, ["a", "b"], 2, "turn") == [0, 3]
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
