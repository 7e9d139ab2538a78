"""Texts as token ids and ids as texts, the same way wherever they are read, said or learnt.

Chat templates stand around every prompt, once, in training and evaluation alike.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from cory.config import ConfigError
from cory.episode import Asked
from cory.models import policy
from cory.models.bundle import ModelBundle
from cory.models.generation import Response
from cory.models.loading import load_tokenizer
from cory.models.tokenization import Texts
from cory.runtime.worker import build_components
from tests.support.composing import parsed
from tests.support.llama import BOS, CHAT, llama_tokenizer
from tests.support.rows import write_rows

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


def chatting(tokenizer: Any, template: str = CHATML) -> Texts:
    tokenizer.chat_template = template
    marks = ["<|im_start|>", "<|im_end|>"] if template == CHATML else []
    tokenizer.add_special_tokens({"additional_special_tokens": marks})
    return Texts(tokenizer, "model.path=made up", chat=True)


def tiny() -> Any:
    return load_tokenizer("asset:tiny", "model.path")


@pytest.mark.parametrize("make", [tiny, llama_tokenizer])
def test_a_response_stands_behind_one_space(make: Callable[[], Any]) -> None:
    """Also where a tokenizer puts the space there by itself."""
    tokenizer = make()
    texts = Texts(tokenizer, "model")
    ids = texts.answer_ids(TEXT)
    assert ids[-1] == tokenizer.eos_token_id
    whole = tokenizer(f"Response: {TEXT}")["input_ids"]
    assert [*texts.context_ids("Response:"), *ids[:-1]] == whole
    assert texts.answer_ids(f"  {TEXT}\n") == ids  # as it is shown to the other role


@pytest.mark.parametrize("make", [tiny, llama_tokenizer])
@pytest.mark.parametrize("template", [CHATML, INST])
def test_a_teachers_text_is_what_the_template_makes_of_it(make, template: str) -> None:
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


def test_a_response_is_what_its_tokens_add_to_the_context() -> None:
    tokenizer = llama_tokenizer()
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


def test_what_a_policy_said_is_what_its_tokens_add(llama: str, monkeypatch) -> None:
    """Judges and observers read the space before the first word, which decoding leaves out."""
    plain = bundle(llama)
    (model,) = plain.new_models(["agent_0"], torch.Generator())
    before, whole = plain.texts.ids(["the film is", "the film is good"])
    good = whole[len(before) :]
    monkeypatch.setattr(policy, "generate", lambda *_: [Response(good, [0.0] * len(good))])
    speaker = policy.Policy(plain, model, None, parsed().hardware)
    (turn,) = speaker.turns([Asked("the film is", "solo")], 9, None)
    assert turn.response == " good"


def bundle(path: str, *words: str) -> ModelBundle:
    return ModelBundle(parsed(f"model.path={path}", *words).model, torch.device("cpu"))


def test_a_text_is_one_message_and_begins_once(llama: str) -> None:
    chat = bundle(llama, "model.chat=true")
    assert chat.texts.render("Why?") == "<s>[INST] Why? [/INST]"
    (ids,) = chat.texts.ids([chat.texts.render("Why?")])
    assert ids[0] == BOS and ids.count(BOS) == 1
    assert chat.texts.tokens("Why?") == len(ids)
    two = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    assert chat.texts.render(two) == "<s>[INST] a [/INST]<s>[INST] b [/INST]"
    plain = bundle(llama, "model.chat=false")
    assert plain.texts.render("Why?") == "Why?"
    with pytest.raises(ConfigError, match="chat=false"):
        plain.texts.render(two)


def test_a_model_without_template_cannot_chat(tiny_model: str) -> None:
    with pytest.raises(ConfigError, match="has no chat template"):
        bundle(tiny_model, "model.chat=true")


def with_template(llama: str, folder: Path, template: str) -> list[str]:
    """Settings of a chat with the model, in another template."""
    shutil.copytree(llama, folder)
    (folder / "chat_template.jinja").write_text(template)
    return [f"model.path={folder}", "model.chat=true"]


WANTS_SYSTEM = "{% if messages[0].role != 'system' %}{{ raise_exception('no system') }}{% endif %}"


@pytest.mark.slow
def test_what_a_template_refuses_is_told_in_its_words(llama, config_of, tmp_path) -> None:
    words = with_template(llama, tmp_path / "system", WANTS_SYSTEM + CHAT)
    with pytest.raises(
        ConfigError, match=r"^model\.path=\S+: the chat template refuses .* user: no system$"
    ):
        build_components(config_of(*words))
    # prompts that bring what the template wants are taken
    chats = [[{"role": "system", "content": "Be."}, {"role": "user", "content": x}] for x in "ab"]
    write_rows(tmp_path / "chats.jsonl", ({"prompt": chat} for chat in chats))
    words += ["task=prompts", f"task.path={tmp_path}/chats.jsonl", "task.held_out_share=0.5"]
    words += ["reward=sentiment_tiny", "algorithm.prompts_per_iteration=1", "evaluation.prompts=1"]
    build_components(parsed(*words, "task.max_prompt_tokens=9", "algorithm.minibatch_size=1"))
