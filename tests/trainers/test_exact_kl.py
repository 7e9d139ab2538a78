"""The exact KL and entropy in the loss, averages over a few turns, and a step with all in bf16."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from cory.episode import Batch, Turn, turns_of
from cory.functional.logprobs import full_kl
from cory.models.actor_critic import response_states
from cory.models.policy import PPOPolicy
from cory.trainers.estimates import Estimate
from cory.trainers.ppo import Objective, PPOTrainer
from cory.trainers.steps import Stage
from tests.support.building import LetterShare, after_two_steps, build, gradient_norm, noise_in
from tests.support.close import assert_close
from tests.support.composing import ConfigOf

FULL = ["algorithm.kl_in=loss", "algorithm.kl_loss=full"]
WORDS = ["algorithm=ppo", "algorithm.epochs=1", "algorithm.kl_coef=0.7", "algorithm.value_coef=0"]
WORDS += ["algorithm.learning_rate=1e-2", "hardware.microbatch_size=2"]


@pytest.mark.parametrize(
    ("exact", "entropy_coef", "temperature", "sharing"),
    [
        (True, 0.0, 0.7, "copies"),
        (True, 0.0, 1.0, "adapters"),
        (False, 0.3, 0.7, "copies"),
        (True, 0.3, 0.7, "copies"),
    ],
)
def test_exact_kl_entropy_bonus_and_their_gradient_by_hand(
    config_of: ConfigOf, exact: bool, entropy_coef: float, temperature: float, sharing: str
) -> None:
    """Advantages of 0, so that the gradient is that of these terms alone."""
    words = [*WORDS, f"model.sharing={sharing}", "algorithm.weight_decay=0"]
    words += [f"algorithm.entropy_coef={entropy_coef}", *(FULL if exact else [])]
    words += [f"algorithm.policy_temperature={temperature}"]
    trainer = build(config_of(*words), LetterShare())
    agent, batch = after_two_steps(trainer)
    agent.engine.reset_optimizer()
    inputs = batch.input_ids, batch.attention_mask, batch.response_mask
    agent.model.eval()
    agent.model.activate()
    lm = agent.model.lm
    logits = lm.get_output_embeddings()(response_states(lm, *inputs)) / temperature
    with torch.no_grad(), agent.reference_model() as reference:
        ref_logits = reference.get_output_embeddings()(response_states(reference, *inputs))
    agent.model.activate()
    probabilities = logits.softmax(-1)
    entropy = -(probabilities * probabilities.log()).sum(-1).mean()
    kl = full_kl(logits, ref_logits / temperature).mean()
    assert kl > 1e-4
    norm = gradient_norm((0.7 * kl if exact else 0.0) - entropy_coef * entropy, agent)
    nothing = torch.zeros_like(batch.logprobs)
    # that of the sampled tokens is not read
    old = replace(batch, ref_logprobs=nothing) if exact else batch
    found = trainer.update(agent, old, Estimate(nothing, nothing), Stage(0, 1, 1e-4))
    for name, wanted, term in (("kl", exact, kl), ("entropy", entropy_coef > 0, entropy)):
        assert (f"ppo/loss/{name}/agent_0" in found) == wanted
        if wanted:
            assert_close(found[f"ppo/loss/{name}/agent_0"], float(term.detach()), 1e-4)
    assert_close(found["ppo/gradient_norm/agent_0"], norm, 1e-3)
    assert norm > 1e-4


def test_tokens_of_a_few_turns_are_averaged_first(config_of: ConfigOf) -> None:
    """In the order in which the minibatch takes the turns; for the value and the KL as well."""
    words = [*WORDS, "algorithm.kl_in=loss", "algorithm.loss_average_turns=2"]
    trainer = build(config_of(*words), LetterShare())
    agent, batch = after_two_steps(trainer)
    stream, mask = torch.Generator().manual_seed(1), batch.response_mask
    known = torch.where(mask, torch.randn(mask.shape, generator=stream), 0.0)
    estimate = Estimate(known, batch.values)  # at a ratio of 1 the loss is minus the advantage
    objective, orders = trainer._objective, []

    def noted(agent: PPOPolicy, batch: Batch, estimate: Estimate, chosen: Tensor) -> Objective:
        orders.append(chosen)
        return objective(agent, batch, estimate, chosen)

    trainer._objective = noted  # type: ignore[method-assign]
    found = trainer.update(agent, batch, estimate, Stage(0, 1, 1e-12))
    (order,) = orders
    parts = [known[rows][mask[rows]].mean() for rows in order.split(2)]
    assert_close(found["ppo/loss/policy/agent_0"], -float(torch.stack(parts).mean()), 1e-4)
    away = batch.ref_logprobs - batch.logprobs
    kl = away.exp() - 1 - away
    parts = [kl[rows][mask[rows]].mean() for rows in order.split(2)]
    assert_close(found["ppo/loss/kl/agent_0"], float(torch.stack(parts).mean()), 1e-4)
    assert found["ppo/loss/kl/agent_0"] > 1e-3


BF16 = "model.precision=bf16"
STEP = ["algorithm=cory", "algorithm.epochs=1", "algorithm.learning_rate=1e-3"]
STEP += ["algorithm.kl_estimator=full"]


def update(agent: PPOPolicy, trainer: PPOTrainer, turns: list[Turn]) -> tuple[Batch, dict]:
    """An update of the agent on these turns, with bounds that are met, and its statistics."""
    known = agent.annotate(turns)
    noise = noise_in(known.response_mask)
    assert known.values is not None
    old = replace(known, logprobs=known.logprobs + noise(0.3), values=known.values + noise(0.2))
    estimate = Estimate(noise(1.0), known.values + noise(0.5))
    return known, trainer.update(agent, old, estimate, Stage(0, 1, 1e-3))


def test_numbers_are_those_of_float32_but_for_rounding(config_of: ConfigOf) -> None:
    exact, rounded = (build(config_of(*STEP, *more), LetterShare()) for more in ([], [BF16]))
    exact.step(0)
    for name in exact.agents:
        turns = turns_of(exact.episodes, name)
        # both from the model as it came, which the first step of `exact` has changed
        fresh = build(config_of(*STEP), LetterShare())
        batch, expected = update(fresh.agents[name], fresh, turns)
        half, found = update(rounded.agents[name], rounded, turns)
        mask = batch.response_mask
        assert half.logprobs.dtype == half.credits.dtype == torch.float32
        off = (half.logprobs - batch.logprobs)[mask].abs()
        assert 0 < off.max() < 0.05 and off.mean() < 0.01
        assert batch.values is not None and half.values is not None
        assert (half.values - batch.values)[mask].abs().max() < 0.05
        for key in ("loss/policy", "loss/value", "gradient_norm", "policy/ratio"):
            one, other = (numbers[f"ppo/{key}/{name}"] for numbers in (expected, found))
            assert other == pytest.approx(one, rel=0.03), key
            assert abs(one) > 1e-3
