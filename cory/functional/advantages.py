"""Token rewards and advantages, from the credit of each turn.

Letters: B turns, R response tokens. Column t of a (B, R) tensor belongs to response token t.
"""

import torch
from torch import Tensor


def last_token(mask: Tensor) -> Tensor:
    """True at the last real token of each row; all False in a row without tokens.

    mask: (B, R) bool, True on a run of tokens that starts in column 0
    """
    if mask.dtype != torch.bool or mask.ndim != 2:
        raise ValueError(f"mask must be (B, R) bool, got {mask.dtype} {tuple(mask.shape)}")
    following = torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], dim=1)
    return mask & ~following


def kl_penalised_rewards(credits: Tensor, kl: Tensor, mask: Tensor, kl_coef: float) -> Tensor:
    """Token rewards: -kl_coef * KL, plus the credit on the last token (Ma et al., eq. 2).

    credits: (B,) credit of each turn
    kl: (B, R) KL to the reference at each token, in nats
    mask: (B, R) bool, True on response tokens
    returns: (B, R)
    """
    if kl.shape != mask.shape or credits.shape != mask.shape[:1]:
        raise ValueError(
            f"credits {tuple(credits.shape)}, kl {tuple(kl.shape)}, mask {tuple(mask.shape)}"
        )
    penalty = torch.where(mask, -kl_coef * kl, 0.0)
    return penalty + torch.where(last_token(mask), credits[:, None], 0.0)


def gae(
    rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, gae_lambda: float
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimates (Schulman et al., 2016; Ma et al., eq. 12, corrected).

    The value after the last real token is 0: the episode ends there, whether the model stopped
    by itself or ran into the length limit.

    rewards, values: (B, R)
    mask: (B, R) bool, True on response tokens
    returns: advantages (B, R), returns (B, R) = advantages + values; 0 where the mask is False
    """
    if not rewards.shape == values.shape == mask.shape:
        raise ValueError(
            f"rewards {tuple(rewards.shape)}, values {tuple(values.shape)}, "
            f"mask {tuple(mask.shape)} differ"
        )
    rewards, values = torch.where(mask, rewards, 0.0), torch.where(mask, values, 0.0)
    advantages = torch.zeros_like(values)
    running = torch.zeros_like(values[:, 0])
    next_value = torch.zeros_like(values[:, 0])
    for t in reversed(range(values.shape[1])):
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        running = torch.where(mask[:, t], delta + gamma * gae_lambda * running, 0.0)
        advantages[:, t] = running
        next_value = values[:, t]
    return advantages, advantages + values
