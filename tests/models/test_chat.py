"""Chat templates: around every prompt, once, in training and evaluation alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from cory.config import Config, ConfigError
from cory.models.team import Team
from tests.support.building import build, measure
from tests.support.composing import parsed
from tests.support.llama import BOS, EOS, save_llama

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


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_llama(tmp_path_factory.mktemp("llama"))


def team(path: str, *words: str) -> Team:
    return Team(parsed(f"model.path={path}", *words).model, torch.device("cpu"))


def test_a_text_is_one_message_and_begins_once(llama: str) -> None:
    chat = team(llama, "model.chat=true")
    assert chat.render("Why?") == "[INST] Why? [/INST]"
    ids = chat.tokenizer(chat.render("Why?"))["input_ids"]
    assert ids[0] == BOS and ids.count(BOS) == 1
    assert chat.tokens("Why?") == len(ids)
    two = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    assert chat.render(two) == "[INST] a [/INST]<s>[INST] b [/INST]"
    plain = team(llama)
    assert plain.render("Why?") == "Why?"
    with pytest.raises(ValueError, match="does not chat"):
        plain.render(two)


def test_a_model_without_template_cannot_chat(tiny_model: str) -> None:
    with pytest.raises(ConfigError, match="has no chat template"):
        team(tiny_model, "model.chat=true")
    words = ["+model@partner=tiny", f"partner.path={tiny_model}", "partner.chat=true"]
    config = parsed("algorithm=maporl", "algorithm.param_sharing=per_agent", *words)
    assert config.partner is not None
    with pytest.raises(ConfigError, match=r"^partner\.chat=true: the tokenizer of partner\.path="):
        Team(config.partner, torch.device("cpu"), "partner")


def test_a_response_ends_at_any_of_the_checkpoints_stops(llama: str, tmp_path: Path) -> None:
    assert team(llama).stops == {EOS}
    model = AutoModelForCausalLM.from_pretrained(llama)
    model.generation_config.eos_token_id = [EOS, 300]
    model.save_pretrained(tmp_path)
    team(llama).tokenizer.save_pretrained(tmp_path)
    assert team(str(tmp_path)).stops == {EOS, 300}


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
        assert first.context == f"[INST] {question} [/INST]"
        assert later.context == (
            f"{first.context}<s>[INST] {first.response} [/INST]<s>[INST] "
            f"Agent 1: {second.response.strip()} {question} [/INST]"
        )
        assert all(turn.context_ids[0] == BOS for turn in episode.turns)
    _, lines = measure(trainer, config, tmp_path)
    for line in lines:
        opening = f"[INST] {line['prompt']} [/INST]"
        assert all(turn["context"].startswith(opening) for turn in line["turns"])


@pytest.mark.slow
def test_a_history_that_does_not_fit_is_cut_and_counted(questions: ConfigOf, llama: str) -> None:
    config = questions(f"model.path={llama}", *WORDS, "algorithm.turns=4")
    trainer = build(config)
    whole = trainer.step(0)["debate/shortened"]
    assert whole == 0.0
    longest = max(len(t.context_ids) for e in trainer.episodes for t in e.turns)
    trainer = build(config)
    # room for all but the longest histories
    trainer.agents["turn_1"].team.pretrained.config.max_position_embeddings = longest + 6 - 1
    for agent in trainer.agents.values():
        agent.model.lm.config.max_position_embeddings = longest + 6 - 1
    cut = trainer.step(0)["debate/shortened"]
    assert 0 < cut < 0.5
    for episode in trainer.episodes:
        for turn in episode.turns:
            assert turn.context.startswith(f"[INST] {episode.prompt.text} [/INST]")
            assert len(turn.context_ids) + 6 <= longest + 6 - 1
