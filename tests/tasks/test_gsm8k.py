from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cory.episode import Prompt
from cory.tasks.questions import QuestionsTask
from tests.support.composing import parsed
from tests.support.refusals import refusal
from tests.tasks.rows import write_rows

# Ma et al., App. A.2, as printed
EXAMPLE = (
    "Question: Shawn has five toys. For Christmas, he got two toys each from his mom and dad. How "
    "many toys does he have now? Answer: Shawn started with 5 toys. If he got 2 toys each from his "
    "mom and dad, then that is 4 more toys. 5 + 4 = 9. "
)
PANCAKES = (
    "The civic league was hosting a pancake breakfast fundraiser. A stack of pancakes was $4.00 "
    "and you could add bacon for $2.00. They sold 60 stacks of pancakes and 90 slices of bacon. "
    "How much did they raise?"
)
PIONEER = "So, 60 x $4 = $240. Then 90 x $2 = $180. Therefore, they raised $240 + $180 = $420."

TRAIN = [
    {"question": f"Tom has {n} cats and gets {{1}}. How many?", "answer": f"{n}+1\n#### {n + 1:,}"}
    for n in range(995, 1025)
]
TEST = [
    {"question": PANCAKES, "answer": "60*4=<<60*4=240>>240\n90*2=180\n240+180=420\n#### 420"},
    {"question": "What is 5 - 14?", "answer": "#### -9"},
    {"question": "What is half of three?", "answer": "1.5"},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_rows(tmp_path / "train.jsonl", TRAIN)
    write_rows(tmp_path / "test.jsonl", TEST)
    return tmp_path


def task(path: Path, tokenizer: Any, *overrides: str, seed: int = 0) -> QuestionsTask:
    where = ["task=gsm8k", "task.source=path", f"task.path={path}", "task.max_prompt_tokens=2000"]
    return QuestionsTask(parsed(*where, *overrides).task, tokenizer, np.random.default_rng(seed))


def test_prompts_are_the_printed_ones(folder: Path, tokenizer: Any) -> None:
    gsm8k = task(folder, tokenizer)
    prompt = gsm8k.held_out(1, "test")[0]
    assert prompt == Prompt(
        id="gsm8k-test-0", text=f"{EXAMPLE}Question: {PANCAKES} Answer:", answer="420"
    )
    assert gsm8k.observer_context(prompt.text, [f" {PIONEER}\n"]) == (
        f"{EXAMPLE}Question: {PANCAKES} Reference: {PIONEER} Answer:"
    )


def test_a_chat_model_is_asked_for_a_box(folder: Path, tokenizer: Any) -> None:
    chat = task(folder, tokenizer, "task=gsm8k_chat")
    prompt = chat.held_out(1, "test")[0]
    assert (prompt.id, prompt.answer) == ("gsm8k-test-0", "420")
    assert prompt.text.startswith(f"{PANCAKES}\n\nExplain your reasoning")
    assert prompt.text.endswith("\nAnswer: \\boxed{...}")
    seen = chat.observer_context(prompt.text, ["It is {1}.", PIONEER])
    assert seen.startswith(f"{PANCAKES}\n\nSomebody else has answered:\nIt is {{1}}.\n\nAnd")
    assert seen.endswith("\nAnswer: \\boxed{...}") and seen.count("boxed") == 1
    # text from a new "Question:" on belongs to no answer, so no prompt should suggest to write one
    assert "Question:" not in seen and chat.read(f"So {PIONEER} \\boxed{{420}}") == 420
    assert chat.prompt_of("Why?").text == prompt.text.replace(PANCAKES, "Why?")


def test_a_response_is_read_as_a_number(folder: Path, tokenizer: Any) -> None:
    gsm8k = task(folder, tokenizer)
    said = [r"3 + 4 is 8. Answer: \boxed{7}", "7.00 dollars", "14/2", "#### 7", "eight"]
    assert [gsm8k.read(text) for text in said] == [Fraction(7)] * 4 + [None]
    assert [gsm8k.is_right(text, "7") for text in said] == [True] * 4 + [False]
    assert not any(gsm8k.is_right(text, "8") for text in said)


@pytest.mark.parametrize(("how", "value"), [("ignored", 7), ("read", 3), ("no_answer", None)])
def test_the_setting_says_what_another_question_counts_for(
    folder: Path, tokenizer: Any, how: str, value: int | None
) -> None:
    """For rewards, for votes and for accuracy alike."""
    gsm8k = task(folder, tokenizer, f"task.next_question={how}")
    said = "So it is 7. Question: Tom has 3 cats. Answer: 3"
    assert gsm8k.read(said) == value
    assert gsm8k.is_right(said, "7") is (value == 7)
    assert gsm8k.is_right("So it is 7.", "7")


@pytest.mark.parametrize(
    ("overrides", "rows", "said"),
    [
        ("task.path={tmp}/train.jsonl", TRAIN, "task.test_split=test: |is one file, which is the"),
        ("task.max_prompt_tokens=9", TRAIN, "max_prompt_tokens=9: all 30 training prompts are"),
        ("", [*TRAIN, {"question": "Why?", "answer": "#### so"}], "row train-30|got 'so'"),
        ("", [*TRAIN, {"question": "Why?"}], "row train-30 has no text in 'answer'"),
    ],
)  # fmt: skip
def test_data_that_cannot_be_used_are_refused(
    overrides: str, rows: list[dict[str, Any]], said: str, folder: Path, tokenizer: Any
) -> None:
    write_rows(folder / "train.jsonl", rows)
    message = refusal(lambda: task(folder, tokenizer, *overrides.format(tmp=folder).split()))
    for part in said.format(tmp=folder).split("|"):
        assert part in message, message


def test_a_question_stands_once_in_a_prompt() -> None:
    twice = "task.prompt_template='{question}{question}'"
    assert "must contain {question} once" in refusal(lambda: parsed("task=gsm8k", twice))
