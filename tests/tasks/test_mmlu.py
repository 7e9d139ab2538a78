"""MMLU: questions with four options, of which the answer is a letter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset
from pydantic import ValidationError

from cory.config import ConfigError, ExactMatchConfig, MmluConfig
from cory.config.errors import lines_of
from cory.episode import Episode, Prompt, Turn
from cory.rewards.exact_match import ExactMatch
from cory.tasks.mmlu import MmluTask
from tests.support.composing import parsed
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


def test_a_response_is_right_when_it_chooses_the_letter(task: Callable[..., MmluTask]) -> None:
    mmlu = task()
    prompt = mmlu.held_out(1, "test")[0]
    said = ["Not (A): (B)", r"\boxed{B}", "(C)", "I do not know."]
    turns = [Turn("a", "solo", 0, "", text, [1], [2]) for text in said]
    ExactMatch(ExactMatchConfig(name="exact_match"), mmlu, None).score([Episode(prompt, turns)])
    assert [turn.score for turn in turns] == [1.0, 1.0, 0.0, 0.0]
    assert [mmlu.read(text) for text in said] == ["B", "B", "C", None]
    assert mmlu.read(str(prompt.answer)) == "B"


def test_all_subjects_come_from_one_split_of_the_hub(
    monkeypatch: pytest.MonkeyPatch, composed: MmluConfig, tokenizer: Any
) -> None:
    asked: list[tuple[str | None, ...]] = []

    def given(path: str, subset: str | None, split: str, offline: str, key: str) -> Dataset:
        asked.append((path, subset, split))
        return Dataset.from_list(ROWS)

    monkeypatch.setattr("cory.tasks.data.tables.hub_table", given)
    parts = MmluTask(composed.replace(pick_train=6, pick_test=6), tokenizer, rng()).parts
    assert asked == [("cais/mmlu", "all", "test")] * 2
    assert len({prompt.text for part in parts.values() for prompt in part}) == 12


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"question": " "}, "task.path={tmp}: row train-12 has no text in 'question'"),
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
    with pytest.raises(ConfigError) as refusal:
        task()
    message = str(refusal.value)
    assert "\n" not in message and said.replace("{tmp}", str(tmp_path)) in message


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"pick_train": None, "pick_test": None}, "every training prompt is a test prompt"),
        ({"choices_column": "options"}, "task.choices_column=options is not in the data; it has"),
        ({"prompt_template": "{question}"}, "must contain {options}"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(
    values: dict[str, Any], said: str, task: Callable[..., MmluTask]
) -> None:
    with pytest.raises((ConfigError, ValidationError)) as refusal:
        task(**values)
    error = refusal.value
    (line,) = lines_of(error) if isinstance(error, ValidationError) else str(error).splitlines()
    assert said in line
