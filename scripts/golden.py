"""Store reference values of TRL 0.11.4 for tests/functional/test_golden.py.

TRL 0.11.4 needs other versions of packages than `cory`, so this script has an environment of its
own; the test needs only the JSON. From the root of the repository:

    python -m venv ../golden-venv
    ../golden-venv/bin/pip install torch==2.13.0
    ../golden-venv/bin/pip install trl==0.11.4 transformers==4.46.3 peft==0.13.2 \
        accelerate==1.1.1 "datasets<4" rich
    ../golden-venv/bin/python scripts/golden.py tests/functional/golden.json
"""

import argparse
import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from trl import core
from trl.trainer.ppo_trainer import PPOTrainer
from trl.trainer.utils import AdaptiveKLController, RunningMoments

SEED = 20240917
B, R, V = 4, 6, 11
LENGTHS = (6, 4, 1, 5)  # of the responses; the first one was cut by the length limit
PACKAGE = "trl"

GAMMA, GAE_LAMBDA = 0.97, 0.9
KL_COEF = 0.3
CLIP_RANGE, VALUE_CLIP_RANGE = 0.2, 0.3


def trainer(kl_penalty: str = "kl") -> SimpleNamespace:
    """A stub with the attributes that methods of PPOTrainer use; a whole one needs a model."""
    config = SimpleNamespace(
        kl_penalty=kl_penalty,
        whiten_rewards=False,
        gamma=GAMMA,
        lam=GAE_LAMBDA,
        cliprange=CLIP_RANGE,
        cliprange_value=VALUE_CLIP_RANGE,
        vf_coef=1.0,
        ratio_threshold=10.0,
    )
    stub = SimpleNamespace(config=config, kl_ctl=SimpleNamespace(value=KL_COEF))
    stub._kl_penalty = lambda p, q: PPOTrainer._kl_penalty(stub, p, q)
    return stub


def plain(value: Any) -> Any:
    """Tensors as lists; nine digits restore every float32 exactly."""
    if isinstance(value, Tensor):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def entry(
    function: Callable[..., Any] | type, inputs: dict[str, Any], outputs: dict[str, Any]
) -> dict[str, Any]:
    return {
        "function": f"{function.__module__}.{function.__qualname__}",
        "package": PACKAGE,
        "version": version(PACKAGE),
        "inputs": plain(inputs),
        "outputs": plain(outputs),
    }


def masked_statistics(x: Tensor, mask: Tensor) -> dict[str, dict[str, Any]]:
    functions = (core.masked_mean, core.masked_var, core.masked_whiten)
    return {
        function.__name__: entry(function, {"x": x, "mask": mask}, {"result": function(x, mask)})
        for function in functions
    }


def token_functions(
    logits: Tensor, ref_logits: Tensor, tokens: Tensor
) -> dict[str, dict[str, Any]]:
    logprobs = core.logprobs_from_logits(logits, tokens)
    ref_logprobs = core.logprobs_from_logits(ref_logits, tokens)
    entries = {
        "logprobs_from_logits": entry(
            core.logprobs_from_logits, {"logits": logits, "tokens": tokens}, {"result": logprobs}
        ),
        "entropy_from_logits": entry(
            core.entropy_from_logits,
            {"logits": logits},
            {"result": core.entropy_from_logits(logits)},
        ),
    }
    for kl_penalty in ("kl", "mse"):
        kl = PPOTrainer._kl_penalty(trainer(kl_penalty), logprobs, ref_logprobs)
        entries[f"kl_penalty_{kl_penalty}"] = entry(
            PPOTrainer._kl_penalty,
            {"logprobs": logprobs, "ref_logprobs": ref_logprobs},
            {"result": kl},
        )
    kl = PPOTrainer._kl_penalty(trainer("full"), logits.log_softmax(-1), ref_logits.log_softmax(-1))
    entries["kl_penalty_full"] = entry(
        PPOTrainer._kl_penalty, {"logits": logits, "ref_logits": ref_logits}, {"result": kl}
    )
    return entries


def rewards_and_advantages(mask: Tensor) -> dict[str, dict[str, Any]]:
    scores = torch.randn(B)
    logprobs, ref_logprobs, values = torch.randn(B, R), torch.randn(B, R), torch.randn(B, R)
    rewards, _, kl = PPOTrainer.compute_rewards(trainer(), scores, logprobs, ref_logprobs, mask)
    _, advantages, returns = PPOTrainer.compute_advantages(trainer(), values, rewards, mask)
    return {
        "compute_rewards": entry(
            PPOTrainer.compute_rewards,
            {
                "scores": scores,
                "logprobs": logprobs,
                "ref_logprobs": ref_logprobs,
                "mask": mask,
                "kl_coef": KL_COEF,
            },
            {"rewards": rewards, "kl": kl},
        ),
        "compute_advantages": entry(
            PPOTrainer.compute_advantages,
            {
                "values": values,
                "rewards": rewards,
                "mask": mask,
                "gamma": GAMMA,
                "gae_lambda": GAE_LAMBDA,
            },
            {"whitened_advantages": advantages, "returns": returns},
        ),
    }


def losses(logits: Tensor, tokens: Tensor, mask: Tensor) -> dict[str, dict[str, Any]]:
    logprobs = core.logprobs_from_logits(logits, tokens).requires_grad_()
    old_logprobs = logprobs.detach() + 0.3 * torch.randn(B, R)
    old_values, advantages, returns = torch.randn(3, B, R)
    values = (old_values + 0.5 * torch.randn(B, R)).requires_grad_()
    policy, value, stats = PPOTrainer.loss(
        trainer(), old_logprobs, old_values, logits, values, logprobs, mask, advantages, returns
    )
    inputs = {
        "logprobs": logprobs,
        "old_logprobs": old_logprobs,
        "advantages": advantages,
        "values": values,
        "old_values": old_values,
        "returns": returns,
        "mask": mask,
        "clip_range": CLIP_RANGE,
        "value_clip_range": VALUE_CLIP_RANGE,
    }
    outputs = {
        "policy_loss": policy,
        "value_loss": value,
        "policy_gradient": torch.autograd.grad(policy, logprobs)[0],
        "value_gradient": torch.autograd.grad(value, values)[0],
        "policy_clipfrac": stats["policy/clipfrac"],
        "approxkl": stats["policy/approxkl"],
        "value_clipfrac": stats["val/clipfrac"],
        "value_error": stats["val/error"],
    }
    return {"loss": entry(PPOTrainer.loss, inputs, outputs)}


def running_moments() -> dict[str, dict[str, Any]]:
    batches = [3 + 2 * torch.randn(n) for n in (5, 2, 9)]
    moments = RunningMoments(accelerator=SimpleNamespace(use_distributed=False))
    seen = []
    for batch in batches:
        moments.update(batch)
        seen.append({"mean": moments.mean, "variance": moments.var, "std": moments.std})
    return {"running_moments": entry(RunningMoments, {"batches": batches}, {"after_each": seen})}


def adaptive_kl() -> dict[str, dict[str, Any]]:
    inputs = {"kl_coef": 0.2, "target": 6.0, "horizon": 10000, "turns": 64}
    kls = [1.0, 5.7, 6.0, 6.5, 30.0, 7.0, 0.0]
    controller = AdaptiveKLController(inputs["kl_coef"], inputs["target"], inputs["horizon"])
    coefficients = []
    for kl in kls:
        controller.update(kl, inputs["turns"])
        coefficients.append(float(controller.value))
    return {
        "adaptive_kl": entry(
            AdaptiveKLController, inputs | {"kls": kls}, {"coefficients": coefficients}
        )
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, help="the JSON file to write")
    path = parser.parse_args().path

    torch.manual_seed(SEED)
    mask = (torch.arange(R) < torch.tensor(LENGTHS)[:, None]).long()  # TRL's masks are integers
    logits, ref_logits = 2 * torch.randn(2, B, R, V)
    tokens = torch.randint(V, (B, R))
    entries = (
        masked_statistics(5 + 3 * torch.randn(B, R), mask)
        | token_functions(logits, ref_logits, tokens)
        | rewards_and_advantages(mask)
        | losses(logits, tokens, mask)
        | running_moments()
        | adaptive_kl()
    )
    lines = (f"{json.dumps(name)}: {json.dumps(entries[name])}" for name in entries)
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
