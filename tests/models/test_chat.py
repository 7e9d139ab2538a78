"""Chat templates: around every prompt, once, in training and evaluation alike."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from cory.config import Config, ConfigError
from cory.episode import Asked
from cory.models.bundle import ModelBundle
from cory.runtime.worker import build_parts
from tests.support.building import build, measure
from tests.support.composing import parsed
from tests.support.llama import BOS, CHAT, EOS

ConfigOf = Callable[..., Config]
WORDS = [
    "model.chat=true",
    "algorithm=maporl",
    "algorithm.guards.boxed=false",
    "algorithm.guards.min_tokens=null",
    "algorithm.prompts_per_iteration=2",
    "algorithm.minibatch_size=4",
    "algorithm.prompts.follow_up='{others} {query}'",
    "algorithm.prompts.other='Agent {number}: {response}'",
    "evaluation.prompts=2",
    "evaluation.team=true",
    "evaluation.samples=1",
    "evaluation.k=[1]",
]


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
    plain = bundle(llama)
    assert plain.texts.render("Why?") == "Why?"
    with pytest.raises(ValueError, match="does not chat"):
        plain.texts.render(two)


def test_a_model_without_template_cannot_chat(tiny_model: str) -> None:
    with pytest.raises(ConfigError, match="has no chat template"):
        bundle(tiny_model, "model.chat=true")


def with_template(llama: str, folder: Path, template: str) -> list[str]:
    """Settings of a chat with the model, in another template."""
    shutil.copytree(llama, folder)
    (folder / "chat_template.jinja").write_text(template)
    return [f"model.path={folder}", "model.chat=true"]


HEADED = "{% for m in messages %}{{ '<' + m.role + '>' + m.content + '</s>' }}{% endfor %}"
NEXT = "{% if add_generation_prompt %}<assistant>{% endif %}"
USER = "{% for m in messages %}{{ m.content + '|' }}{% endfor %}"


@pytest.mark.slow
@pytest.mark.parametrize("template", [HEADED + NEXT, CHAT, USER + "\n"])
def test_a_prompt_has_the_ids_that_the_template_gives_it(
    template: str, llama: str, config_of: ConfigOf, tmp_path: Path
) -> None:
    """No BOS where the template has none, though the tokenizer adds it to other texts."""
    parts = build_parts(config_of(*with_template(llama, tmp_path / "m", template)))
    policies = parts.new_policies(["agent_0"], parts.bundle)
    policy, texts = policies["agent_0"], ["Why?", "the movie"]
    spoken = policy.turns([Asked(text, "solo") for text in texts], 2, None)
    for text, turn in zip(texts, spoken, strict=True):
        asked = [{"role": "user", "content": text}]
        found = parts.bundle.tokenizer.apply_chat_template(asked, add_generation_prompt=True)
        assert turn.context_ids == found["input_ids"]


WANTS_SYSTEM = "{% if messages[0].role != 'system' %}{{ raise_exception('no system') }}{% endif %}"


@pytest.mark.slow
def test_what_a_template_refuses_is_told_in_its_words(
    llama: str, config_of: ConfigOf, tmp_path: Path
) -> None:
    words = with_template(llama, tmp_path / "system", WANTS_SYSTEM + CHAT)
    with pytest.raises(
        ConfigError, match=r"^model\.path=\S+: the chat template refuses .* user: no system$"
    ):
        build_parts(config_of(*words))
    # prompts that bring what the template wants are taken
    chats = [[{"role": "system", "content": "Be."}, {"role": "user", "content": x}] for x in "ab"]
    rows = "".join(json.dumps({"prompt": chat}) + "\n" for chat in chats)
    (tmp_path / "chats.jsonl").write_text(rows)
    words += ["task=prompts", f"task.path={tmp_path}/chats.jsonl", "task.held_out_share=0.5"]
    words += ["reward=sentiment_tiny", "algorithm.prompts_per_iteration=1", "evaluation.prompts=1"]
    build_parts(parsed(*words, "task.max_prompt_tokens=9", "algorithm.minibatch_size=1"))


def test_a_response_ends_where_template_and_checkpoint_end_it(llama: str, tmp_path: Path) -> None:
    words = with_template(llama, tmp_path / "m", HEADED.replace("</s>", "<0x01>"))
    model = AutoModelForCausalLM.from_pretrained(llama)
    model.generation_config.eos_token_id = [EOS, 300]
    model.save_pretrained(tmp_path / "m")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "m")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<0x01>"]})
    tokenizer.save_pretrained(tmp_path / "m")
    chat = bundle(str(tmp_path / "m"), *words)
    assert bundle(str(tmp_path / "m")).stops == {EOS, 300}
    assert chat.stops == {EOS, 300, tokenizer.convert_tokens_to_ids("<0x01>")}


@pytest.mark.slow
def test_a_debate_is_a_chat_in_training_and_evaluation(
    questions: ConfigOf, llama: str, tmp_path: Path
) -> None:
    config = questions(f"model.path={llama}", *WORDS)
    trainer = build(config)
    trainer.step(0)
    for episode in trainer.episodes:
        question = episode.prompt.text
        first, second, *_ = episode.turns
        later = episode.turns[2]
        assert first.context == f"<s>[INST] {question} [/INST]"
        assert later.context == (
            f"{first.context}<s>[INST] {first.response} [/INST]<s>[INST] "
            f"Agent 1: {second.response.strip()} {question} [/INST]"
        )
        assert all(turn.context_ids[0] == BOS for turn in episode.turns)
    _, lines = measure(trainer, config, tmp_path)
    for line in lines:
        opening = f"<s>[INST] {line['prompt']} [/INST]"
        assert all(turn["context"].startswith(opening) for turn in line["turns"])
