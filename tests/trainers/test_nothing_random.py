"""Updates of PPO compute what was scored: nothing in their passes is random."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from transformers import MixtralConfig, MixtralForCausalLM

from cory.config import Config
from tests.support.building import LetterShare, build
from tests.support.fixtures import LONGEST, make_tokenizer, save


@pytest.fixture(scope="module")
def noisy_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A mixture of experts whose router is noisy in training mode."""
    tokenizer = make_tokenizer()
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": LONGEST}
    torch.manual_seed(0)
    model = MixtralForCausalLM(
        MixtralConfig(
            vocab_size=len(tokenizer),
            **sizes,
            **heads,
            num_local_experts=4,
            router_jitter_noise=0.9,
            attention_dropout=0.5,
            initializer_range=0.2,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    return save(model, tokenizer, str(tmp_path_factory.mktemp("noisy_model")))


@pytest.mark.parametrize("sharing", ["copies", "adapters"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_the_ratio_of_the_first_step_is_one(
    config_of: Callable[..., Config], noisy_model: str, sharing: str, checkpointing: bool
) -> None:
    config = config_of(
        "algorithm=grpo",
        "algorithm.epochs=1",
        "algorithm.kl_coef=0",
        f"model.path={noisy_model}",
        f"model.sharing={sharing}",
        "model.adapter.dropout=0.5",
        f"hardware.gradient_checkpointing={checkpointing}".lower(),
    )
    metrics = build(config, LetterShare()).step(0)
    assert metrics["ppo/policy/ratio/agent_0"] == pytest.approx(1, abs=1e-6)
    assert metrics["ppo/policy/approxkl/agent_0"] < 1e-12
    assert metrics["ppo/gradient_norm/agent_0"] > 0
