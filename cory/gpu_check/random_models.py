"""Random Llamas with a tokenizer, made on this machine: nothing is downloaded."""

from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from cory.models.loading import load_tokenizer

TOKENIZER = "asset:tiny"  # 4,096 tokens; a larger vocabulary is filled up with made-up ones
SPREAD = 3.0  # of logits: a model whose tokens are all alike would show no error
SIZES = {
    "small": {
        "hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 4096,
    },
    # the shape of TinyLlama: 1.1 B parameters
    "large": {
        "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22,
        "num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 32000,
    },
    # in its place on a CPU
    "stand-in": {
        "hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 8,
        "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 8000,
    },
}  # fmt: skip


def make_llama(folder: Path, size: str) -> None:
    """Write a random Llama and its tokenizer to a folder, unless it is there.

    Weights are bfloat16 numbers, so that every precision starts from the same ones.

    size: a key of SIZES
    """
    if (folder / "done").exists():
        return
    tokenizer = load_tokenizer(TOKENIZER, "tokenizer")
    vocabulary = SIZES[size]["vocab_size"]
    tokenizer.add_tokens([f"<{number}>" for number in range(len(tokenizer), vocabulary)])
    end = int(tokenizer.eos_token_id)
    config = LlamaConfig(
        **SIZES[size],
        max_position_embeddings=1024,
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    model = model.to_empty(device="cpu").to(torch.bfloat16)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 1:
                weight.fill_(1.0)  # of norms
            elif name.startswith("lm_head"):
                weight.normal_(std=SPREAD / weight.shape[1] ** 0.5)
            elif "embed" in name:
                weight.normal_()
            else:
                weight.normal_(std=weight.shape[1] ** -0.5)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "done").touch()
