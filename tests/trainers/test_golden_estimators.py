"""Our updates against TRL 1.16's GRPOTrainer and RLOOTrainer: advantages, loss and gradient.

The stored numbers (scripts/golden_estimators.py writes them) are of three prompts with four answers
each, on a tiny model with other log-probabilities than those at roll-out and of the reference, so
that each bound of the ratio is met with advantages of both signs.
"""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from cory.config import PPOConfig
from cory.episode import Batch
from cory.functional.logprobs import pad_turns
from cory.functional.losses import loss_average
from cory.models.actor_critic import ActorCriticModel
from cory.trainers.estimates import Estimate, Groups, estimator_of, without_cut_off
from cory.trainers.ppo import Objective
from tests.support.close import assert_close
from tests.support.composing import parsed

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "functional" / "golden_estimators.json").read_text("utf-8")
)
BATCH = GOLDEN["batch"]
GRPO = GOLDEN["grpo"]
RLOO = GOLDEN["rloo"]
AVERAGES = {"grpo": "responses", "bnpo": "tokens", "dapo": "tokens", "dr_grpo": "constant"}
# what TRL divides advantages by and cory does not: the loss is then of TRL's advantages
ELSEWHERE = ("scale_rewards batch", "normalize_advantages True")


def settings(name: str, case: dict[str, Any]) -> PPOConfig:
    """TRL's settings as one types them here."""
    given = case["settings"]
    high = given["epsilon_high"] or "null"
    own = ["algorithm=rloo"]
    if "loss_type" in given:
        scaled = "false" if given["scale_rewards"] == "none" else "true"
        average = AVERAGES[given["loss_type"]]
        own = ["algorithm=grpo", f"algorithm.divide_by_std={scaled}"]
        corrected = given["use_bias_correction_kl"]
        own += [f"algorithm.loss_average={average}"]
        own += ["algorithm.kl_loss=k3_corrected"] if corrected else []
        own += ["algorithm.ratio=gspo"] if "importance_sampling_level" in given else []
        own += ["algorithm.overlong=mask"] if "mask_truncated_completions" in given else []
        own += [f"algorithm.entropy_coef={given.get('entropy_coef', 0)}"]
    return parsed(
        *own,
        *("algorithm.prompts_per_iteration=12", "algorithm.minibatch_size=12"),
        f"algorithm.samples_per_prompt={BATCH['samples_per_prompt']}",
        f"algorithm.sampling.max_response_tokens={BATCH['max_completion_length']}",
        *(f"algorithm.kl_coef={given['beta']}", f"algorithm.clip_range={given['epsilon']}"),
        f"algorithm.clip_range_high={high}",
    ).algorithm


def roll_out() -> Batch:
    """The batch as a trainer annotates it: log-probabilities, and k1 as the rewarded KL."""
    ids, attention, mask = pad_turns(BATCH["prompt_ids"], BATCH["completion_ids"], 0)
    old, reference = torch.tensor(BATCH["old_logprobs"]), torch.tensor(BATCH["ref_logprobs"])
    return Batch(
        input_ids=ids,
        attention_mask=attention,
        response_mask=mask,
        credits=torch.tensor(BATCH["rewards"]),
        logprobs=old,
        ref_logprobs=reference,
        kl=old - reference,
        entropy=torch.zeros_like(old),
        values=None,
    )


def loss_of(config: PPOConfig, batch: Batch, estimate: Estimate, size: int) -> Any:
    """The loss in microbatches of `size`, and the model with its gradient."""
    lm = LlamaForCausalLM(LlamaConfig(**GOLDEN["model"]["config"]))
    lm.load_state_dict({k: torch.tensor(v) for k, v in GOLDEN["model"]["weights"].items()})
    agent: Any = SimpleNamespace(engine=ActorCriticModel("agent", lm), kl_coef=config.kl_coef)
    mask = batch.response_mask
    average = loss_average(config.loss_average, mask, config.sampling.max_response_tokens)
    objective = Objective(config, agent, batch, estimate, average, mask.sum())
    total = torch.zeros(())
    for index in torch.arange(len(batch)).split(size):
        loss, _ = objective(index.tolist())
        loss.backward()
        total += loss.detach()
    return total, agent.engine


@pytest.mark.parametrize("name", [*GRPO, *(f"rloo {name}" for name in RLOO)])
@pytest.mark.parametrize("size", [12, 5])
def test_loss_and_gradient_are_trls(name: str, size: int) -> None:
    case = GRPO.get(name) or RLOO[name.removeprefix("rloo ")]
    config, batch = settings(name, case), roll_out()
    groups = Groups(torch.arange(len(batch)) // config.samples_per_prompt)
    in_reward = config.kl_coef if config.kl_in == "reward" else 0.0
    estimate = estimator_of(config)(batch, groups, in_reward)
    expected = torch.tensor(case["advantages"])[:, None] * batch.response_mask
    if name.endswith(ELSEWHERE):
        assert not torch.allclose(estimate.advantages, expected, atol=1e-3)
        estimate = Estimate(expected, None)
    assert_close(estimate.advantages, expected)
    if config.overlong == "mask":
        turns: list[Any] = [
            SimpleNamespace(cut_off=ids[-1] != 1) for ids in BATCH["completion_ids"]
        ]
        assert sum(turn.cut_off for turn in turns) == 2
        batch, estimate = without_cut_off(batch, estimate, turns)
    loss, model = loss_of(config, batch, estimate, size)
    assert_close(loss, case["loss"])
    weights = dict(model.lm.named_parameters())
    norms = {key: float(weight.grad.norm()) for key, weight in weights.items()}  # type: ignore[union-attr]
    for key, norm in case["gradient_norms"].items():
        assert_close(norms[key], norm)
    for key, gradient in case["gradients"].items():
        assert_close(weights[key].grad, gradient)  # type: ignore[arg-type]
    assert case["gradient_norm"] > 0.01
