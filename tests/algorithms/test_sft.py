"""Supervised fine-tuning on answers that the data give, and imitation of the best debates."""

from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import load_dataset

from cory.algorithms.maporl import best
from cory.config import Config, parse_config
from cory.episode import Episode, Prompt, Turn
from cory.evaluation.responses import EvalRequest
from tests.support.building import built
from tests.support.chat_models import save_chat_model
from tests.support.commands import last_wins
from tests.support.composing import ConfigOf, compose_config
from tests.support.refusals import refusal
from tests.support.rows import write_rows
from tests.support.supervising import SFT, build_verifier

SYSTEM = {"role": "system", "content": "Be kind."}


def asked(number: int) -> dict[str, str]:
    return {"role": "user", "content": f"Why {number}?"}


def said(number: int) -> dict[str, str]:
    return {"role": "assistant", "content": f"Since {number}."}


@pytest.fixture
def own(process_group: None, tmp_path: Path) -> ConfigOf:
    """Settings of a small run on rows of a file, of which the first two are held out."""
    model = save_chat_model("qwen2_5", tmp_path / "qwen")

    def make(rows: list[dict[str, Any]], *words: str) -> Config:
        write_rows(tmp_path / "mine.jsonl", rows)
        base = [
            *("algorithm=sft", "task=prompts"),
            *(f"task.path={tmp_path}/mine.jsonl", "task.answer_column=answer"),
            *("task.train_split='train[2:]'", "task.test_split='train[:2]'"),
            *("task.max_prompt_tokens=60", f"model.path={model}", "model.chat=false"),
            *("algorithm.prompts_per_iteration=4", "algorithm.minibatch_size=2"),
            *(f"algorithm.sampling.{end}_response_tokens=5" for end in ("min", "max")),
            *("algorithm.learning_rate=1e-3", f"run_dir={tmp_path / 'run'}"),
        ]
        return parse_config(compose_config(*last_wins([*base, *words])))

    return make


def texts(count: int) -> list[dict[str, Any]]:
    return [{"prompt": f"{n} and 1?", "answer": f"It is\n{n + 1}."} for n in range(count)]


@pytest.mark.parametrize("form", ["messages", "completion", "texts"])
def test_the_answers_tokens_and_the_end_are_learnt(own: ConfigOf, form: str) -> None:
    """A chat's context is all but the answer, in the template, which the answer's end is of."""
    forms = {
        "messages": [{"prompt": [SYSTEM, asked(n), said(n)]} for n in range(6)],
        "completion": [{"prompt": [SYSTEM, asked(n)], "answer": [said(n)]} for n in range(6)],
        "texts": [{"prompt": f"Why {n}?", "answer": f"Since {n}."} for n in range(6)],
    }
    words = ["task.answer_column=prompt"] if form == "messages" else []
    words += [f"model.chat={form != 'texts'}", "task.answers=unread"]
    trainer = built(own(forms[form], *words))
    tokenizer = trainer.agents["agent_0"].bundle.tokenizer
    learnt = trainer.collect(0).examples["agent_0"]
    shown, space = "Why {}?", " "
    if form != "texts":
        system = "<|im_start|>system\nBe kind.<|im_end|>\n"
        shown = system + "<|im_start|>user\nWhy {}?<|im_end|>\n<|im_start|>assistant\n"
        space = ""
    pairs = [(tokenizer.decode(e.context_ids), tokenizer.decode(e.response_ids)) for e in learnt]
    # each once, none that is held out
    expected = [(shown.format(n), f"{space}Since {n}.<|im_end|>") for n in range(2, 6)]
    assert sorted(pairs) == expected
    again = trainer.collect(1).examples["agent_0"]
    assert sorted(map(repr, again)) == sorted(map(repr, learnt))


@pytest.mark.parametrize("chat", [True, False])
def test_what_is_learnt_is_exported_for_other_trainers(own, tmp_path, chat: bool) -> None:
    """Prompt and completion, rendered and tokenised again, are what was learnt."""
    words = ["export_examples=true", f"model.chat={chat}"]
    trainer = built(own(texts(8), *words, *(["model.system=Hi."] if chat else [])))
    trainer.step(0)
    trainer.step(1)
    files = sorted((tmp_path / "run" / "examples").rglob("*.jsonl"))
    assert [str(file.relative_to(tmp_path / "run" / "examples")) for file in files] == [
        "1/agent_0.jsonl",
        "2/agent_0.jsonl",
    ]
    rows = load_dataset("json", data_files=[*map(str, files)], split="train", cache_dir=tmp_path)
    again = built(own(texts(8), *words[1:], *(["model.system=Hi."] if chat else [])))
    learnt = [e for n in (0, 1) for e in again.collect(n).examples["agent_0"]]
    tokenizer = again.agents["agent_0"].bundle.tokenizer
    assert len(rows) == len(learnt) == 8
    for row, example in zip(rows, learnt, strict=True):
        if chat:
            assert row["prompt"][0] == {"role": "system", "content": "Hi."}
            text = tokenizer.apply_chat_template(row["prompt"] + row["completion"], tokenize=False)
            assert tokenizer.decode([*example.context_ids, *example.response_ids]) + "\n" == text
        else:
            text = row["prompt"] + row["completion"] + tokenizer.eos_token
            assert tokenizer(text).input_ids == [*example.context_ids, *example.response_ids]


def test_long_examples_are_left_out_and_told(own: ConfigOf, capsys) -> None:
    rows = texts(8)
    rows[5]["answer"] = "word " * 100
    config = own(rows, "algorithm.max_tokens=80", "algorithm.iterations=3")
    learnt = built(config).collect(0).examples["agent_0"]
    told = capsys.readouterr().err
    assert "algorithm.max_tokens=80 leaves out 1 of 6 examples" in told
    assert "passes 2.4 times over 5 examples" in told  # 3 x 4 of 5
    assert max(example.tokens for example in learnt) < 80
    short = own(rows, "algorithm.max_tokens=2")
    assert "=2: all 6 training examples are longer" in refusal(lambda: built(short))


def test_it_learns_and_the_likelihood_is_the_models(own: ConfigOf) -> None:
    """The NLL against a plain forward pass of the library; the second answer is cut."""
    rows = texts(8)
    rows[1]["answer"] = "one two three four five six"
    config = own(rows, "algorithm.max_tokens=24")
    trainer = built(config)
    agent = trainer.agents["agent_0"]

    def measured() -> tuple[float, list[float]]:
        request = EvalRequest(config.evaluation, 0, 1, True)
        metrics = trainer.evaluate(request, lambda *_: None)
        assert metrics.keys() == {"eval/nll/agent_0"} and len(request.scores.prompts) == 2
        return metrics["eval/nll/agent_0"], request.scores.values["eval/nll/agent_0"]

    mean, each = measured()
    assert mean == pytest.approx(sum(each) / 2)
    for row, value in zip(rows, each, strict=False):
        context = agent.bundle.tokenizer(row["prompt"]).input_ids
        answer = agent.bundle.tokenizer(f" {row['answer']}", add_special_tokens=False).input_ids
        ids = torch.tensor([[*context, *answer, agent.bundle.tokenizer.eos_token_id][:24]])
        labels = ids.clone()
        labels[0, : len(context)] = -100
        with torch.no_grad():
            assert value == pytest.approx(float(agent.model.lm(ids, labels=labels).loss), rel=1e-4)
    losses = [trainer.step(n)["supervised/loss/agent_0"] for n in range(12)]
    assert losses[-1] < losses[0] - 0.5
    assert measured()[0] < mean - 0.5
    rows[0]["prompt"] = "one two three four five six seven?"
    long = built(own(rows, "algorithm.max_tokens=24"))
    request = EvalRequest(config.evaluation, 0, 1, True)
    said = refusal(lambda: long.evaluate(request, lambda *_: None))
    assert said.startswith("algorithm.max_tokens=24: the prompt mine.jsonl:1 alone has ")


def debate(name: str, scores: list[float | None]) -> Episode:
    """Of one answer per score; None: the debate had ended before."""
    turns = [
        Turn("a", "debater_0", place, "", "x", [1], [] if score is None else [2], score=score)
        for place, score in enumerate(scores)
    ]
    return Episode(Prompt(name, name), turns)


@pytest.mark.parametrize(
    ("share", "kept"), [(0.2, "c"), (0.25, "ca"), (0.6, "cab"), (1.0, "cabed")]
)
def test_the_best_debates_by_hand(share: float, kept: str) -> None:
    """Means 0.5, 0.5 (its last answer never came), 0.75, 0 and 0.25."""
    episodes = [
        debate("a", [0.0, 1.0]),
        debate("b", [0.5, None]),
        debate("c", [0.5, 1.0]),
        debate("d", [0.0, 0.0]),
        debate("e", [0.5, 0.0]),
    ]
    assert "".join(episode.prompt.id for episode in best(episodes, share)) == kept


@pytest.mark.parametrize("sharing", ["per_turn", "per_turn_agent"])
def test_each_policy_learns_from_the_turns_that_it_is_to_speak(questions, sharing: str) -> None:
    config = questions(*SFT, f"algorithm.param_sharing={sharing}")
    trainer = build_verifier(config)
    collected = trainer.collect(0)
    assert len(collected.episodes) == 8
    assert {t.agent for episode in collected.episodes for t in episode.turns} == {"reference"}
    kept = best(collected.episodes, 0.5)
    names = {"per_turn": "turn_{1}", "per_turn_agent": "agent_{0}_turn_{1}"}[sharing]
    expected: dict[str, list[list[int]]] = {name: [] for name in trainer.agents}
    for episode in kept:
        for place, turn in enumerate(episode.turns):
            turn_number, agent = place // 2 + 1, place % 2
            if turn_number > 1:  # algorithm.train_turns=[2, 3]
                expected[names.format(agent, turn_number)].append(turn.response_ids)
    assert set(expected) == set(collected.examples)
    for name, examples in collected.examples.items():
        assert [example.response_ids for example in examples] == expected[name] != []
        assert {example.label for example in examples} == {1.0}
