"""Texts as token ids, the same way wherever they are read, said or learnt."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from cory.config import ConfigError
from cory.models.loading import load_tokenizer
from cory.models.tokenization import Codec

TEXT = "I know the word! It is film"


def team_of(tokenizer: Any, chat: bool = False) -> Any:
    """What a codec asks of a team."""
    config = SimpleNamespace(chat=chat, name="made up")
    return SimpleNamespace(
        tokenizer=tokenizer,
        config=config,
        group="model",
        render=lambda context: context,
        tokens=lambda context: len(tokenizer(context)["input_ids"]),
    )


def like_llama() -> PreTrainedTokenizerFast:
    """Puts a mark for a space before any text by itself, as Llama's tokenizer does."""
    bpe = Tokenizer(models.BPE(unk_token="<unk>"))
    bpe.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    bpe.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    special = ["<unk>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(vocab_size=200, special_tokens=special, show_progress=False)
    bpe.train_from_iterator([TEXT, "Response: word film movie"] * 3, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=bpe, unk_token="<unk>", eos_token="</s>")


def test_a_response_stands_behind_one_space() -> None:
    tokenizer = load_tokenizer("asset:tiny", "model.path")
    codec = Codec(team_of(tokenizer), 10)
    assert codec.gap == " "
    ids = codec.response_ids(TEXT)
    assert ids[-1] == tokenizer.eos_token_id and ids[:-1] == tokenizer(f" {TEXT}")["input_ids"]
    whole = tokenizer(f"Response: {TEXT}")["input_ids"]
    assert [*codec.context_ids("Response:"), *ids[:-1]] == whole
    assert codec.response_ids(f"  {TEXT}\n") == ids  # as it is shown to the other role


def test_a_tokenizer_that_puts_the_space_there_by_itself() -> None:
    tokenizer = like_llama()
    codec = Codec(team_of(tokenizer), 10)
    assert codec.gap == ""
    whole = tokenizer(f"Response: {TEXT}")["input_ids"]
    assert [*codec.context_ids("Response:"), *codec.response_ids(TEXT)[:-1]] == whole


def test_after_a_chat_template_nothing_stands_between() -> None:
    tokenizer = load_tokenizer("asset:tiny", "model.path")
    codec = Codec(team_of(tokenizer, chat=True), 10)
    assert codec.response_ids(TEXT)[:-1] == tokenizer(TEXT)["input_ids"]


def test_a_tokenizer_that_merges_across_is_refused() -> None:
    class Merging:
        eos_token_id = 0

        def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
            return {"input_ids": [len(text)]}

    with pytest.raises(ConfigError, match="model=made up: its tokenizer reads a context and a"):
        Codec(team_of(Merging()), 10)


def test_what_fits() -> None:
    tokenizer = load_tokenizer("asset:tiny", "model.path")
    tokens = len(tokenizer("the movie was good")["input_ids"])
    assert Codec(team_of(tokenizer), tokens).fits("the movie was good")
    assert not Codec(team_of(tokenizer), tokens - 1).fits("the movie was good")
