from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cory.functional.advantages import (
    batch_normalised,
    equal_groups,
    gae,
    group_relative,
    kl_penalised_rewards,
    last_token,
    leave_one_out,
)
from tests.support.close import assert_close

NAN = float("nan")
# cut by the length limit; ended early with EOS; one token; no token at all
MASK = torch.arange(3) < torch.tensor([3, 2, 1, 0])[:, None]
# what lies outside the mask must not matter
KL = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, NAN], [6.0, NAN, NAN], [NAN, NAN, NAN]])
CREDITS = torch.tensor([10.0, 20.0, 30.0, 40.0])


def random_turns() -> tuple[Tensor, Tensor]:
    """Rewards and values, with garbage outside the mask."""
    generator = torch.Generator().manual_seed(0)
    rewards, values = torch.randn(2, 4, 3, generator=generator)
    return rewards.masked_fill(~MASK, 99.0), values.masked_fill(~MASK, -77.0)


def widen(x: Tensor, fill: float) -> Tensor:
    """Two more columns of padding."""
    return torch.cat([x, torch.full((len(x), 2), fill, dtype=x.dtype)], dim=1)


def test_last_token() -> None:
    assert last_token(MASK).int().tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("mask", [MASK.int(), MASK[0]])
def test_last_token_wants_rows_of_bool(mask: Tensor) -> None:
    with pytest.raises(ValueError, match="bool"):
        last_token(mask)


def test_credit_sits_on_the_last_real_token() -> None:
    rewards = kl_penalised_rewards(CREDITS, KL, MASK, kl_coef=0.0)
    assert_close(rewards, [[0, 0, 10.0], [0, 20.0, 0], [30.0, 0, 0], [0, 0, 0]])


def test_kl_is_taken_off_every_real_token() -> None:
    # coefficient 0.5: -0.5 * KL, and on the last token credit - 0.5 * KL
    expected = [[-0.5, -1.0, 8.5], [-2.0, 17.5, 0.0], [27.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    assert_close(kl_penalised_rewards(CREDITS, KL, MASK, kl_coef=0.5), expected)


def test_gae_by_hand() -> None:
    # gamma 0.5, lambda 0.8, product 0.4; rewards 1, 2, 4; values 1, 1, 2
    # delta = 1 + 0.5 - 1 = 0.5;  2 + 1 - 1 = 2;  4 + 0 - 2 = 2
    # A = 0.5 + 0.4 * 2.8 = 1.62;  2 + 0.4 * 2 = 2.8;  2
    mask = torch.ones(1, 3, dtype=torch.bool)
    rewards, values = torch.tensor([[1.0, 2.0, 4.0]]), torch.tensor([[1.0, 1.0, 2.0]])
    advantages, returns = gae(rewards, values, mask, gamma=0.5, gae_lambda=0.8)
    assert_close(advantages, [[1.62, 2.8, 2.0]])
    assert_close(returns, [[2.62, 3.8, 4.0]])


def test_lambda_zero_gives_the_one_step_error() -> None:
    rewards, values = random_turns()
    advantages, _ = gae(rewards, values, MASK, gamma=0.9, gae_lambda=0.0)
    (r, s, p), (v, w, u) = rewards[:3].tolist(), values[:3].tolist()
    # the value after the last token is 0, whatever the row holds there
    assert_close(
        advantages,
        [
            [r[0] + 0.9 * v[1] - v[0], r[1] + 0.9 * v[2] - v[1], r[2] - v[2]],
            [s[0] + 0.9 * w[1] - w[0], s[1] - w[1], 0.0],
            [p[0] - u[0], 0.0, 0.0],
            [0.0, 0.0, 0.0],
        ],
    )


def test_returns_are_advantages_plus_values_and_zero_outside() -> None:
    rewards, values = random_turns()
    advantages, returns = gae(rewards, values, MASK, gamma=0.9, gae_lambda=0.7)
    assert_close(returns, torch.where(MASK, advantages + values, 0.0))
    assert_close(advantages[~MASK], [0.0] * 6)


def test_padding_changes_nothing() -> None:
    rewards, values = random_turns()
    narrow = gae(rewards, values, MASK, gamma=0.9, gae_lambda=0.7)
    wide = gae(widen(rewards, 5.0), widen(values, -3.0), widen(MASK, False), 0.9, 0.7)
    for a, b in zip(wide, narrow, strict=True):
        assert_close(a, widen(b, 0.0))
    assert_close(
        kl_penalised_rewards(CREDITS, widen(KL, 9.0), widen(MASK, False), 0.5),
        widen(kl_penalised_rewards(CREDITS, KL, MASK, 0.5), 0.0),
    )


@pytest.mark.parametrize("which", [0, 1, 2])
def test_gae_shapes_must_agree(which: int) -> None:
    tensors = [torch.zeros(4, 3), torch.zeros(4, 3), MASK]
    tensors[which] = tensors[which][:, :2]
    with pytest.raises(ValueError, match="differ"):
        gae(*tensors, gamma=1.0, gae_lambda=1.0)


@pytest.mark.parametrize(("credits", "kl"), [(CREDITS[:3], KL), (CREDITS, KL[:, :2])])
def test_reward_shapes_must_agree(credits: Tensor, kl: Tensor) -> None:
    with pytest.raises(ValueError, match="credits"):
        kl_penalised_rewards(credits, kl, MASK, 0.1)


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
    rewards, groups = torch.full((7,), value), torch.tensor([0, 0, 0, 1, 1, 1, -1])
    rewards[3] += 1
    for found in (
        group_relative(rewards, groups, divide_by_std=True),
        group_relative(rewards, groups, divide_by_std=False),
        leave_one_out(rewards, groups),
    ):
        assert found[[0, 1, 2, 6]].tolist() == [0.0] * 4
        assert found[3] > 0 > found[4]


def test_the_only_turn_of_a_group_has_no_advantage() -> None:
    rewards, groups = torch.tensor([5.0, 1.0, 2.0]), torch.tensor([0, 1, 1])
    assert group_relative(rewards, groups, divide_by_std=True)[0] == 0
    assert leave_one_out(rewards, groups)[0] == 0


@pytest.mark.parametrize("estimate", [leave_one_out, lambda r, g: group_relative(r, g, True)])
def test_the_order_of_turns_and_other_groups_change_nothing(
    estimate: Callable[[Tensor, Tensor], Tensor],
) -> None:
    whole, order = estimate(REWARDS, GROUPS), torch.tensor([5, 0, 3, 2, 1, 4])
    assert_close(estimate(REWARDS[order], GROUPS[order]), whole[order])
    alone = GROUPS == 0
    assert_close(estimate(REWARDS[alone], GROUPS[alone]), whole[alone])


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


def test_groups_need_a_number_for_each_turn() -> None:
    with pytest.raises(ValueError, match="groups"):
        leave_one_out(REWARDS, GROUPS[:2])
    with pytest.raises(ValueError, match="differ"):
        batch_normalised(torch.zeros(4, 2), MASK, gamma=1.0)
