"""A random Llama of a few thousand weights, with a tokenizer like those of its chat models."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

BOS, EOS, LAYERS, WIDTH = 1, 2, 3, 128
CHAT = "{% for m in messages %}{{ bos_token }}[INST] {{ m['content'] }} [/INST]{% endfor %}"


def llama_tokenizer() -> PreTrainedTokenizerFast:
    """A token per letter: BOS is put before every text, and no token is there to pad with."""
    letters = [chr(code) for code in range(33, 127)]
    others = [f"<0x{byte:02X}>" for byte in range(256)]
    vocabulary = ["<unk>", "<s>", "</s>", *others, "▁", *letters]
    bpe = Tokenizer(
        models.BPE(
            vocab={token: place for place, token in enumerate(vocabulary)},
            merges=[],
            unk_token="<unk>",
            byte_fallback=True,
            fuse_unk=True,
        )
    )
    bpe.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    bpe.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    bpe.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", BOS)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    )
    tokenizer.chat_template = CHAT
    return tokenizer


def save_llama(folder: Path) -> str:
    """The folder, for `model.path`.

    Keys and values are shared by two heads each; linear layers are wide enough for 4 bits.
    """
    tokenizer = llama_tokenizer()
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=WIDTH,
            intermediate_size=WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=1024,
            bos_token_id=BOS,
            eos_token_id=EOS,
            initializer_range=0.2,  # tokens that differ between contexts
        )
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
