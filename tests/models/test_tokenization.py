"""Texts as token ids and ids as texts, the same way wherever they are read, said or learnt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from cory.episode import Asked
from cory.models import policy
from cory.models.bundle import ModelBundle
from cory.models.generation import Response
from cory.models.loading import load_tokenizer
from cory.models.tokenization import Texts
from tests.support.composing import parsed
from tests.support.llama import llama_tokenizer

TEXT = "I know the word! It is film"
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
# the first Llama's: spaces of its own, and no heading before an answer
INST = (
    "{% for m in messages %}{% if m.role == 'user' %}{{ bos_token + '[INST] ' + m.content + "
    "' [/INST]' }}{% else %}{{ ' ' + m.content + ' ' + eos_token }}{% endif %}{% endfor %}"
)


def like_llama() -> PreTrainedTokenizerFast:
    """Puts a mark for a space before any text by itself, as Llama's tokenizer does."""
    bpe = Tokenizer(models.BPE(unk_token="<unk>"))
    bpe.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    bpe.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    special = ["<unk>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(vocab_size=200, special_tokens=special, show_progress=False)
    bpe.train_from_iterator([TEXT, "Response: word the good movie reply"] * 3, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    )


def chatting(tokenizer: Any, template: str = CHATML) -> Texts:
    tokenizer.chat_template = template
    marks = ["<|im_start|>", "<|im_end|>"] if template == CHATML else []
    tokenizer.add_special_tokens({"additional_special_tokens": marks})
    return Texts(tokenizer, "model.path=made up", chat=True)


def tiny() -> Any:
    return load_tokenizer("asset:tiny", "model.path")


@pytest.mark.parametrize("make", [tiny, like_llama])
def test_a_response_stands_behind_one_space(make: Callable[[], Any]) -> None:
    """Also where a tokenizer puts the space there by itself."""
    tokenizer = make()
    texts = Texts(tokenizer, "model")
    ids = texts.answer_ids(TEXT)
    assert ids[-1] == tokenizer.eos_token_id
    whole = tokenizer(f"Response: {TEXT}")["input_ids"]
    assert [*texts.context_ids("Response:"), *ids[:-1]] == whole
    assert texts.answer_ids(f"  {TEXT}\n") == ids  # as it is shown to the other role


@pytest.mark.parametrize("make", [tiny, like_llama, llama_tokenizer])
@pytest.mark.parametrize("template", [CHATML, INST])
def test_a_teachers_text_is_what_the_template_makes_of_it(
    make: Callable[[], Any], template: str
) -> None:
    """Behind what the template puts there, and up to the token that it ends an answer with."""
    tokenizer = make()
    tokenizer.bos_token = tokenizer.bos_token or tokenizer.eos_token
    texts = chatting(tokenizer, template)
    said = [*texts.context_ids("movie"), *texts.answer_ids(f" {TEXT}\n")]
    chat = [{"role": "user", "content": "movie"}, {"role": "assistant", "content": TEXT}]
    whole = tokenizer.apply_chat_template(chat)["input_ids"]
    assert said[:-1] == whole[: len(said) - 1]
    end = "<|im_end|>" if template == CHATML else tokenizer.eos_token
    assert said[-1] == tokenizer.convert_tokens_to_ids(end)


@pytest.mark.parametrize("make", [like_llama, llama_tokenizer])
def test_a_response_is_what_its_tokens_add_to_the_context(make: Callable[[], Any]) -> None:
    tokenizer = make()
    if make is like_llama:
        tokenizer.backend_tokenizer.decoder = decoders.Metaspace()
    before, whole = (tokenizer(text)["input_ids"] for text in ("the film is", "the film is good"))
    texts = Texts(tokenizer, "model")
    assert texts.response(before, whole[len(before) :]) == " good"
    assert texts.response(before, []) == ""
    # behind a line break or a mark of the template there is no space unless one is said
    chat = chatting(tokenizer)
    shown = chat.ids([chat.render("film")])[0]
    (good,) = chat.ids(["\ngood"])
    word = good[len(chat.ids(["\n"])[0]) :]
    assert chat.response(shown, word) == "good"
    # what a template puts before an answer is not the answer's
    chat = chatting(tokenizer, INST)
    shown = chat.ids([chat.render("film")])[0]
    assert chat.response(shown, whole[len(before) :]) == "good"


def test_bytes_of_a_character_do_not_spoil_the_context() -> None:
    tokenizer = llama_tokenizer()
    context = tokenizer("é")["input_ids"]  # two tokens, each a byte
    half = tokenizer.convert_tokens_to_ids("<0xA9>")
    assert Texts(tokenizer, "model").response(context, [half]) == "\N{REPLACEMENT CHARACTER}"
    tokenizer = tiny()
    context = tokenizer("the é")["input_ids"]
    for ids in ([context[-1]], [*context, 300], tokenizer(" it's . is")["input_ids"]):
        assert Texts(tokenizer, "model").response(context, ids) == tokenizer.decode(ids)


def test_what_a_policy_said_is_what_its_tokens_add(
    llama: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Judges and observers read the space before the first word, which decoding leaves out."""
    bundle = ModelBundle(parsed(f"model.path={llama}").model, torch.device("cpu"))
    (model,) = bundle.new_models(["agent_0"], torch.Generator())
    before, whole = bundle.texts.ids(["the film is", "the film is good"])
    good = whole[len(before) :]
    monkeypatch.setattr(policy, "generate", lambda *_: [Response(good, [0.0] * len(good))])
    speaker = policy.Policy(bundle, model, None, parsed().hardware)
    (turn,) = speaker.turns([Asked("the film is", "solo")], 9, None)
    assert turn.response == " good"
