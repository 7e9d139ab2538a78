"""The models of the check: every precision starts from the same weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from cory.gpu_check.random_models import SIZES, make_llama
from cory.models.loading import load_tokenizer


def test_weights_are_bfloat16_numbers_and_tokens_are_not_alike(tmp_path: Path) -> None:
    make_llama(tmp_path, "small")
    half, whole = (
        AutoModelForCausalLM.from_pretrained(tmp_path, dtype=dtype)
        for dtype in (torch.bfloat16, torch.float32)
    )
    for one, other in zip(half.parameters(), whole.parameters(), strict=True):
        assert torch.equal(one.float(), other)
    ids = torch.arange(64).view(2, 32)
    with torch.no_grad():
        logits = whole(ids).logits
    assert 2 < logits.std() < 4 and logits.isfinite().all()
    written = (tmp_path / "model.safetensors").stat().st_mtime_ns
    make_llama(tmp_path, "small")
    assert (tmp_path / "model.safetensors").stat().st_mtime_ns == written


@pytest.mark.slow
def test_every_token_that_a_larger_model_can_say_has_a_text(tmp_path: Path) -> None:
    make_llama(tmp_path, "stand-in")
    tokenizer = load_tokenizer(str(tmp_path), "path")
    vocabulary = AutoConfig.from_pretrained(tmp_path).vocab_size
    assert len(tokenizer) == vocabulary == SIZES["stand-in"]["vocab_size"]
    assert tokenizer.decode([5000, vocabulary - 1]) == f"<5000><{vocabulary - 1}>"


@pytest.mark.parametrize(("size", "least", "most"), [("large", 1.0e9, 1.2e9), ("small", 1e6, 3e6)])
def test_sizes(size: str, least: float, most: float) -> None:
    with torch.device("meta"):
        model = LlamaForCausalLM(LlamaConfig(**SIZES[size], tie_word_embeddings=False))
    assert least < sum(p.numel() for p in model.parameters()) < most
