"""The models of MAPoRL: their conf files, and adapters on small ones of the same architecture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from peft.tuners.lora import LoraLayer
from transformers import Phi3Config, Phi3ForCausalLM

from cory.config import Config
from cory.memory import Shape, parts_of
from cory.models.loading import skeleton
from cory.models.lora import adapted_layers
from tests.support.building import LetterShare, build
from tests.support.composing import parsed
from tests.support.llama import BOS, EOS, llama_tokenizer

# parameters, and bytes of keys and values per token in bf16, as their makers state them
SIZES = {
    "phi3_mini": (3_821_079_552, 2 * 2 * 32 * 32 * 96),
    "qwen2_5_3b": (3_085_938_688, 2 * 2 * 36 * 2 * 128),
    "llama3_8b": (8_030_261_248, 2 * 2 * 32 * 8 * 128),
}
SMALL = {
    "vocab_size": len(llama_tokenizer()),
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 1024,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
    "pad_token_id": EOS,
}


@pytest.mark.parametrize(
    "name", ["phi3_mini", *(pytest.param(n, marks=pytest.mark.slow) for n in [*SIZES][1:])]
)
def test_its_architecture_its_adapters_and_its_memory_are_known_without_the_hub(name: str) -> None:
    """Every linear layer of a block gets an adapter; the base is packed in four bits."""
    config = parsed(f"model={name}", "task=gsm8k_chat", "reward=exact_match", "hardware=gpu1")
    model, adapter = config.model, config.model.adapter
    lm = skeleton(model.path, "model.path", model.described)
    shape = Shape(lm)
    assert (shape.parameters, 2 * shape.cache) == SIZES[name]
    assert set(adapted_layers(lm, adapter.targets)) == {layer for layer, _, _ in shape.linear}
    assert (adapter.rank, adapter.alpha, adapter.dropout) == (8, 16, 0.05)
    assert (model.sharing, model.quantisation, model.precision) == ("adapters", "nf4", "bf16")
    sizes = {part.what: part.bytes for part in parts_of(config)}
    base, own = sizes["base, frozen"], sizes["weights that train"]
    # half a byte per weight of the linear layers, two for embeddings and output; adapters are small
    assert 0.5 < base / SIZES[name][0] < 0.85
    assert 0.002 < own / 2 / 2 / SIZES[name][0] < 0.006


@pytest.mark.slow
def test_a_small_one_learns_through_its_adapters(
    config_of: Callable[..., Config], tmp_path: Path
) -> None:
    """On some processors a pass in 4 bits without gradient makes later ones lose theirs."""
    torch.manual_seed(0)
    Phi3ForCausalLM(Phi3Config(**SMALL)).save_pretrained(tmp_path)
    llama_tokenizer().save_pretrained(tmp_path)
    config = config_of(
        "model=phi3_mini",
        f"model.path={tmp_path}",
        "model.architecture=null",
        "model.precision=fp32",
        "model.quantisation=nf4",
        "task.max_prompt_tokens=40",
        "algorithm.learning_rate=1e-2",
    )
    trainer = build(config, reward=LetterShare())
    lm = trainer.agents["agent_0"].model.lm
    adapted = {n.rpartition(".")[2] for n, m in lm.named_modules() if isinstance(m, LoraLayer)}
    assert config.model.adapter.targets is not None
    assert adapted == set(config.model.adapter.targets)
    for iteration in range(2):
        metrics = trainer.step(iteration)
    for agent in trainer.agents:
        assert metrics[f"objective/kl_k3/{agent}"] > 1e-6
        assert metrics[f"ppo/gradient_norm/{agent}"] > 0
