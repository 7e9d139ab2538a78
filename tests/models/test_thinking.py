"""What a model says to itself: trained like the rest, counted apart, and shown to nobody else."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from cory.endpoint import Endpoint
from cory.models.tokenization import Texts, apart
from tests.support.building import LetterShare, build
from tests.support.chat_models import chat_tokenizer, save_chat_model
from tests.support.chat_server import CONFIG, ChatServer, Said, asks
from tests.support.chat_server import reply as completion
from tests.support.close import assert_close
from tests.support.composing import ConfigOf


@pytest.mark.parametrize(
    ("text", "opened", "thought", "said"),
    [
        ("Yes.", False, "", "Yes."),
        ("<think>\n2 + 2\n</think>\n\nIt is 4.", False, "2 + 2", "It is 4."),
        ("2 + 2</think>It is 4.", True, "2 + 2", "It is 4."),  # the template opened it
        ("It", True, "It", ""),  # cut off in it
        ("<think>\n2 + 2", False, "2 + 2", ""),
        ("<think>a</think> b <think>c</think> d", False, "a</think> b <think>c", "d"),
        ("<think>a</think> b <think>c", False, "a</think> b <think>c", ""),  # of two, one is open
    ],
)
def test_what_is_said_to_others_follows_the_thinking(text, opened, thought, said) -> None:
    assert apart(text, opened) == (thought, said)


def test_thinking_is_private_where_the_template_knows_it() -> None:
    def private(family: str, thinking: str, chat: bool = True) -> bool:
        return Texts(chat_tokenizer(family), "x", chat, thinking=thinking).private

    assert [private(family, "auto") for family in ("qwen3", "smollm3", "llama3")] == [1, 1, 0]
    assert [private("qwen3", "shown"), private("llama3", "private")] == [0, 1]
    assert [private("qwen3", "auto", chat=False), private("qwen3", "private", chat=False)] == [0, 1]


@pytest.mark.parametrize("family", ["qwen3", "llama3"])  # a token for each tag; several
@pytest.mark.parametrize("cut", [False, True])
def test_tokens_of_thinking_are_the_first_ones(family: str, cut: bool) -> None:
    tokenizer = chat_tokenizer(family)
    texts = Texts(tokenizer, "x", True, thinking="private")
    shown = texts.render("Hi")
    (context,) = texts.ids([shown])
    thinking = "<think>\nthree or four?" + ("" if cut else "\n</think>")
    thought = tokenizer(thinking, add_special_tokens=False)["input_ids"]
    rest = [] if cut else [*tokenizer("\n\nThe answer", add_special_tokens=False)["input_ids"],
                           tokenizer.eos_token_id]  # fmt: skip
    parts = texts.parts(shown, context, [*thought, *rest])
    assert tuple(parts.values()) == (len(thought), "three or four?", "" if cut else "The answer")
    texts = Texts(tokenizer, "x", True, thinking="shown")
    said = texts.parts(shown, context, [*thought, *rest])
    assert said == {"response": thinking + ("" if cut else "\n\nThe answer")}


def test_a_tag_may_share_its_token_with_what_follows() -> None:
    class Whole:
        chat_template, all_special_ids = None, ()
        words = ("a", "</think>b", "c", "<think>")

        def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
            return "".join(self.words[i] for i in ids)

    texts = Texts(Whole(), "x", thinking="private")
    assert tuple(texts.parts("Hi", [0], [3, 0, 1, 2]).values()) == (3, "a", "bc")
    assert tuple(texts.parts("Hi <think>\n", [0], [0, 1]).values()) == (2, "a", "b")
    assert tuple(texts.parts("Hi <think>\n", [0], [0, 2]).values()) == (2, "ac", "")


def test_an_imitated_answer_ends_thinking_that_the_template_has_begun() -> None:
    """As the templates of DeepSeek-R1's distills do."""
    tokenizer = chat_tokenizer("qwen3")
    end = "{% if add_generation_prompt %}assistant: <think>\n{% endif %}"
    tokenizer.chat_template = "{% for m in messages %}{{ m.role + ': ' + m.content }}\n{% endfor %}"
    tokenizer.chat_template += end
    texts = Texts(tokenizer, "x", True, thinking="private")
    ids = texts.answer_ids("Four.")
    assert tokenizer.decode(ids) == "</think>\n\nFour.<|im_end|>"
    shown = texts.render("Hi")
    assert texts.parts(shown, texts.context_ids("Hi"), ids)["response"] == "Four."


@pytest.mark.slow
def test_an_observer_and_the_judge_see_no_thinking(config_of: ConfigOf, tmp_path: Path) -> None:
    """All tokens are in the batch that is learnt; the metrics count those of thinking."""
    path = save_chat_model("qwen3", tmp_path / "model", tie_word_embeddings=False)
    lm = AutoModelForCausalLM.from_pretrained(path)
    tokenizer = chat_tokenizer("qwen3")
    closing = tokenizer.convert_tokens_to_ids("</think>")
    with torch.no_grad():
        lm.lm_head.weight[closing] *= 4  # said more often
    lm.save_pretrained(path)
    config = config_of(
        *("algorithm=cory", f"model.path={path}", "model.chat=true", "model.value_init=zero"),
        *("task.max_prompt_tokens=40", "evaluation.prompts=2", "algorithm.sampling.top_p=1"),
    )
    trainer = build(config, reward=LetterShare())
    metrics = trainer.step(0)
    heard, counts = 0, {"pioneer": [0], "observer": [0]}
    for episode in trainer.episodes:
        first, second = episode.turns
        for turn in episode.turns:
            spoken = tokenizer.decode(turn.response_ids)
            counts[turn.role].append(turn.thinking_tokens)
            assert turn.thinking_tokens == (
                len(turn.response_ids)
                if "<think>" in spoken.rpartition("</think>")[2]
                else len(turn.response_ids) - turn.response_ids[::-1].index(closing)
                if closing in turn.response_ids
                else 0
            )
            rest = turn.response_ids[turn.thinking_tokens :]
            alone = tokenizer.decode(rest, skip_special_tokens=True)
            assert turn.response.lstrip() == alone.lstrip()
            assert turn.score == turn.response.count("e") / max(1, len(turn.response))
        heard += first.thinking_tokens > 0 and bool(first.response)
        assert "</think>" not in second.context and first.response in second.context
    assert heard > 0
    for role, each in counts.items():
        agent = {"pioneer": "agent_0", "observer": "agent_1"}[role]
        for name in (role, agent):
            assert_close(metrics[f"rollout/thinking_tokens/{name}"], sum(each) / (len(each) - 1))


def test_an_endpoint_may_return_thinking_apart_or_in_its_text(tmp_path: Path) -> None:
    def answer(number: int, body: object) -> Said:
        said = completion("<think>\nfour\n</think>\n\nIt is 4." if number % 2 else "It is 4.")
        assert isinstance(said.body, dict)
        if number % 2 == 0:
            said.body["choices"][0]["message"]["reasoning_content"] = "four"
        return said

    server = ChatServer(answer)
    config = CONFIG.replace(base_url=server.url, key_variable=None, parallel=1)
    for _ in range(2):  # the second time as they were kept
        replies = Endpoint(config, tmp_path / "replies.jsonl").complete(asks("a", "b"))
        assert [(one.thinking, one.text) for one in replies] == [("four", "It is 4.")] * 2
    assert len(server.texts()) == 2
