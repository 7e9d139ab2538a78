"""MMLU: questions with four options, of which the answer is a letter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cory.config import ConfigError, MmluConfig
from cory.episode import Prompt
from cory.tasks.mmlu import MmluTask
from tests.support.composing import parsed
from tests.support.refusals import refusal
from tests.tasks.rows import write_rows

ROWS = [
    {
        "question": f"What is {n} {{+}} 1? ",
        "choices": [str(n), str(n + 1), " {1} ", "none"],
        "answer": 1,
    }
    for n in range(12)
]
MESSAGE = "What is 0 {+} 1?\n(A) 0\n(B) 1\n(C) {1}\n(D) none\n\nWhich option is right?"


@pytest.fixture(scope="module")
def composed() -> MmluConfig:
    config = parsed("task=mmlu").task
    assert isinstance(config, MmluConfig)
    return config


@pytest.fixture
def task(composed: MmluConfig, tmp_path: Path, tokenizer: Any) -> Callable[..., MmluTask]:
    """Makes the task of a file's questions, with other values for some settings."""
    write_rows(tmp_path / "test.jsonl", ROWS)
    few = composed.replace(source="path", path=str(tmp_path), max_prompt_tokens=2000, pick_train=8)

    def make(**values: Any) -> MmluTask:
        return MmluTask(few.replace(**{"pick_test": 4} | values), tokenizer, rng())

    return make


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_questions_are_asked_with_their_options(task: Callable[..., MmluTask]) -> None:
    parts = task().parts
    every = {prompt.text: prompt for part in parts.values() for prompt in part}
    assert [len(parts[part]) for part in ("train", "test")] == [8, 4] and len(every) == 12
    (first,) = [prompt for prompt in every.values() if prompt.id.endswith("-0")]
    assert first.text.startswith(MESSAGE) and "form (X)" in first.text
    assert {prompt.answer for prompt in every.values()} == {"B"}
    made = task()
    assert made.read(first.text) == "D"  # the last option
    probe = made.prompt_of("What is 0 {+} 1?\n0\n1\n{1}\nnone\n")
    assert probe == Prompt("probe", first.text)
    seen = made.observer_context(first.text, ["(A) {x}"])
    assert seen.startswith(f"{first.text}\n\nSomebody else has answered:\n(A) {{x}}\n\nCheck")
    with pytest.raises(ConfigError, match=r"four lines with its options; got 'Why\?'$"):
        made.prompt_of("Why?")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"choices": ["1", "2", "3"]}, "row train-12: 'choices' must be a list of four texts"),
        ({"choices": ["1", "2", "3", " "]}, "row train-12: 'choices' must be a list of four texts"),
        ({"answer": 4}, "row train-12: 'answer' must be 0 to 3 or A to D, got 4"),
        ({"answer": None}, "row train-12: 'answer' must be 0 to 3 or A to D, got None"),
    ],
)
def test_rows_that_cannot_be_used_are_refused(
    change: dict[str, Any], said: str, tmp_path: Path, task: Callable[..., MmluTask]
) -> None:
    write_rows(tmp_path / "test.jsonl", [*ROWS, {**ROWS[0], "question": "Why?", **change}])
    assert said.replace("{tmp}", str(tmp_path)) in refusal(lambda: task())
