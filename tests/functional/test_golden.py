"""Our functions against the stored results of TRL 0.11.4 (written by scripts/golden.py)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from cory.functional.advantages import RunningMoments, adapted_kl_coef, gae, kl_penalised_rewards
from cory.functional.logprobs import (
    full_kl,
    logprobs_of,
    masked_mean,
    masked_var,
    sampled_kl,
    token_statistics,
    whiten,
)
from cory.functional.losses import clipped_policy_loss, clipped_value_loss
from tests.support.close import assert_close

GOLDEN: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("golden.json").read_text(encoding="utf-8")
)


def stored(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs and outputs of one reference function, as tensors where they are lists of numbers."""
    return tensors(GOLDEN[name]["inputs"]), tensors(GOLDEN[name]["outputs"])


def tensors(values: dict[str, Any]) -> dict[str, Any]:
    ready = {k: torch.tensor(v) if isinstance(v, list) else v for k, v in values.items()}
    return ready | ({"mask": ready["mask"].bool()} if "mask" in ready else {})


def flat(x: Tensor) -> Tensor:
    """(B, R, ...) -> (B * R, ...), the tokens in one row."""
    return x.flatten(0, 1)


def entropy_of(logits: Tensor) -> Tensor:
    """As a roll-out records it, of logits that no head has to compute."""
    rows = logits, lambda chosen: chosen
    tokens = torch.zeros(len(logits), dtype=torch.int64)
    return token_statistics(*rows, *rows, tokens, logits.shape[-1]).entropy


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("masked_mean", lambda x, mask: masked_mean(x, mask)),
        ("masked_var", lambda x, mask: masked_var(x, mask)),
        ("logprobs_from_logits", lambda logits, tokens: logprobs_of(flat(logits), flat(tokens))),
        ("entropy_from_logits", lambda logits: entropy_of(flat(logits))),
        ("kl_penalty_kl", lambda logprobs, ref_logprobs: sampled_kl(logprobs, ref_logprobs, "k1")),
        ("kl_penalty_mse", lambda logprobs, ref_logprobs: sampled_kl(logprobs, ref_logprobs, "k2")),
        ("kl_penalty_full", lambda logits, ref_logits: full_kl(flat(logits), flat(ref_logits))),
    ],
)
def test_functions_of_tensors(name: str, function: Callable[..., Tensor]) -> None:
    given, expected = stored(name)
    assert_close(function(**given).flatten(), torch.as_tensor(expected["result"]).flatten())


def test_whiten() -> None:
    given, expected = stored("masked_whiten")
    # TRL leaves numbers outside the mask
    mask = given["mask"]
    assert_close(whiten(given["x"], mask)[mask], expected["result"][mask])


def test_rewards() -> None:
    given, expected = stored("compute_rewards")
    mask = given["mask"]
    kl = sampled_kl(given["logprobs"], given["ref_logprobs"], "k1")
    rewards = kl_penalised_rewards(given["scores"], kl, mask, given["kl_coef"])
    # TRL goes on penalising behind the last token
    assert_close(rewards[mask], expected["rewards"][mask])
    assert not rewards[~mask].any()


def test_advantages_and_returns() -> None:
    given, expected = stored("compute_advantages")
    mask = given["mask"]
    advantages, returns = gae(
        given["rewards"], given["values"], mask, given["gamma"], given["gae_lambda"]
    )
    assert_close(returns, expected["returns"])
    assert_close(whiten(advantages, mask)[mask], expected["whitened_advantages"][mask])


def test_policy_loss() -> None:
    given, expected = stored("loss")
    mask, logprobs = given["mask"], given["logprobs"].requires_grad_()
    loss = clipped_policy_loss(
        logprobs, given["old_logprobs"], given["advantages"], mask, given["clip_range"]
    )
    mean = masked_mean(loss.per_token, mask)
    assert 0 < expected["policy_clipfrac"] < 1
    assert_close(mean, expected["policy_loss"])
    assert_close(masked_mean(loss.clipped.float(), mask), expected["policy_clipfrac"])
    assert_close(masked_mean(loss.deviation, mask), expected["approxkl"])
    assert_close(torch.autograd.grad(mean, logprobs)[0], expected["policy_gradient"])


def test_value_loss() -> None:
    given, expected = stored("loss")
    mask, values = given["mask"], given["values"].requires_grad_()
    loss = clipped_value_loss(
        values, given["old_values"], given["returns"], mask, given["value_clip_range"]
    )
    mean = masked_mean(loss.per_token, mask)
    assert 0 < expected["value_clipfrac"] < 1
    # TRL halves the squared error, the paper and we do not
    assert_close(mean, 2 * expected["value_loss"])
    assert_close(torch.autograd.grad(mean, values)[0], 2 * expected["value_gradient"])
    assert_close(masked_mean(loss.clipped.float(), mask), expected["value_clipfrac"])
    assert_close(masked_mean(loss.deviation, mask), expected["value_error"])


def test_running_moments() -> None:
    entry = GOLDEN["running_moments"]
    moments = RunningMoments()
    batches, after_each = entry["inputs"]["batches"], entry["outputs"]["after_each"]
    for batch, expected in zip(batches, after_each, strict=True):
        moments.update(batch)
        for name, value in expected.items():
            assert_close(getattr(moments, name), value)


def test_adaptive_kl() -> None:
    given, expected = GOLDEN["adaptive_kl"]["inputs"], GOLDEN["adaptive_kl"]["outputs"]
    kl_coef, coefficients = given["kl_coef"], []
    for kl in given["kls"]:
        kl_coef = adapted_kl_coef(kl_coef, kl, given["target"], given["horizon"], given["turns"])
        coefficients.append(kl_coef)
    assert_close(coefficients, expected["coefficients"])
    # beyond TRL: of many more turns than the horizon it stays above 0
    assert_close([adapted_kl_coef(1.0, 0.0, 1.0, 10, turns) for turns in (10, 99)], [0.8, 0.8])
