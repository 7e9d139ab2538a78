"""Tiny random chat models of the families that conf/model has: architecture, tokenizer, template.

The tokenizers are small byte-level ones with a family's special tokens; the templates, in
tests/models/templates, say what the family's own say, without tools and images.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

TEMPLATES = Path(__file__).resolve().parents[1] / "models" / "templates"
SENTENCES = [
    "Tom has 3 apples and buys 4 more. How many apples does he have?",
    "Let us think step by step. The answer is 7.",
    "You are a helpful assistant. What is the capital of France? Say yes or no.",
]
SIZES = {
    **{"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 1024},
}
CHATML = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# windows of attention that are shorter than prompts
MIXED = {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]}


@dataclass(frozen=True)
class Family:
    """What is a family's own: its class of transformers, its special tokens, where turns end."""

    model_type: str
    special: list[str]
    eos: str
    ends: list[str]  # of generation_config.json
    bos: str | None = None
    pad: str | None = None  # None: as the checkpoints, which have none
    adds_bos: bool = False  # to texts that are no chats
    words: list[str] = field(default_factory=list)  # added to the vocabulary, and not special
    settings: dict[str, Any] = field(default_factory=dict)  # of its config.json


LLAMA3 = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
          "<|eom_id|>", "<|eot_id|>"]  # fmt: skip
GEMMA = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
PHI = ["<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
THOUGHTS = ["<think>", "</think>"]
FAMILIES = {
    "qwen2_5": Family(
        "qwen2", CHATML, "<|im_end|>", ["<|im_end|>", "<|endoftext|>"], pad="<|endoftext|>"
    ),
    "qwen3": Family(
        *("qwen3", CHATML, "<|im_end|>", ["<|im_end|>", "<|endoftext|>"]),
        pad="<|endoftext|>",
        words=THOUGHTS,
        settings={"head_dim": 16, "tie_word_embeddings": True},
    ),
    "llama3": Family(
        *("llama", LLAMA3, "<|eot_id|>", ["<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"]),
        bos="<|begin_of_text|>",
        adds_bos=True,
    ),
    "gemma3": Family(
        *("gemma3_text", GEMMA, "<eos>", ["<eos>", "<end_of_turn>"]),
        bos="<bos>",
        pad="<pad>",
        adds_bos=True,
        settings={**MIXED, "head_dim": 16, "query_pre_attn_scalar": 16},
    ),
    "smollm2": Family(
        *("llama", CHATML, "<|im_end|>", ["<|im_end|>"]),
        bos="<|im_start|>",
        pad="<|im_end|>",
        settings={"tie_word_embeddings": True},
    ),
    "smollm3": Family(
        *("smollm3", CHATML, "<|im_end|>", ["<|im_end|>"]),
        pad="<|im_end|>",
        words=THOUGHTS,
        settings={"no_rope_layers": [1, 0], "tie_word_embeddings": True},
    ),
    "phi4_mini": Family(
        *("phi3", PHI, "<|endoftext|>", ["<|end|>", "<|endoftext|>"]),
        bos="<|endoftext|>",
        pad="<|endoftext|>",
        settings={"partial_rotary_factor": 0.75, "tie_word_embeddings": True},
    ),
    "mistral": Family("mistral", ["<s>", "</s>"], "</s>", ["</s>"], bos="<s>", adds_bos=True),
}


def byte_level(texts: list[str], special: list[str], size: int) -> Tokenizer:
    """Byte-level BPE of so many tokens."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    return bpe


def chat_tokenizer(family: str) -> PreTrainedTokenizerFast:
    """A tokenizer of some 300 tokens with the family's special ones and its chat template."""
    own = FAMILIES[family]
    bpe = byte_level(SENTENCES, own.special, 256 + len(own.special) + 24)
    bpe.add_tokens(own.words)
    if own.adds_bos:
        bpe.post_processor = processors.TemplateProcessing(
            single=f"{own.bos} $A", special_tokens=[(own.bos, own.special.index(str(own.bos)))]
        )
    named = {"bos_token": own.bos, "eos_token": own.eos, "pad_token": own.pad}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, clean_up_tokenization_spaces=False, **named
    )
    tokenizer.chat_template = (TEMPLATES / f"{family}.jinja").read_text()
    return tokenizer


def varied(model: PreTrainedModel) -> PreTrainedModel:
    """With weights so large that tokens depend on what stands before them."""
    numbers = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.2, generator=numbers)
    return model.eval()


def save_chat_model(family: str, folder: Path, **settings: Any) -> str:
    """The folder, for `model.path`: weights so large that tokens depend on what stands before them.

    settings: of config.json, in place of the family's
    """
    own, tokenizer = FAMILIES[family], chat_tokenizer(family)
    config = AutoConfig.for_model(
        own.model_type,
        **{**SIZES, "vocab_size": len(tokenizer), **own.settings, **settings},
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.convert_tokens_to_ids(own.ends[0]),
        pad_token_id=tokenizer.pad_token_id,
    )
    model = varied(AutoModelForCausalLM.from_config(config))
    model.generation_config.eos_token_id = tokenizer.convert_tokens_to_ids(own.ends)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
