"""A run goes on only with the data that it began with, whatever the task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cory.config import ConfigError
from cory.config.options import builder
from cory.seeding import EpochSampler
from tests.support.composing import parsed
from tests.support.refusals import refusal
from tests.tasks.rows import write_rows

ROWS = [{"question": f"What is {n} + 1?", "answer": f"#### {n + 1}"} for n in range(9)]
WORDS = ["apple", "bread", "chair", "drum"]
SLICES = ["task.train_split='train[:6]'", "task.test_split='train[6:]'"]


def sampler_of(*words: str, tokenizer: Any) -> EpochSampler:
    config = parsed(*words).task
    task = builder("task", config.name)(config, tokenizer, np.random.default_rng(0))
    return task.sampler  # type: ignore[no-any-return]


@pytest.mark.parametrize("place", [1, 8])  # of the training, and of the test
def test_changed_data_are_refused(place: int, tmp_path: Path, tokenizer: Any) -> None:
    words = ("experiment=cory/gsm8k_ppo", "task=gsm8k", "task.source=path", *SLICES)

    def read(rows: list[dict[str, str]]) -> EpochSampler:
        file = write_rows(tmp_path / "mine.jsonl", rows)
        return sampler_of(*words, f"task.path={file}", tokenizer=tokenizer)

    first = read(ROWS)
    drawn = [first.next() for _ in range(2)]
    state = json.loads(json.dumps(first.state_dict()))
    again = read(ROWS)
    again.load_state_dict(state)
    assert sorted([*drawn, *again.left]) == list(range(first.rows))
    changed = [*ROWS[:place], {**ROWS[place], "question": "More?"}, *ROWS[place + 1 :]]
    said = refusal(lambda: read(changed).load_state_dict(state))
    assert said.startswith("task.path=")
    assert "the data are not those that this run began with" in said


@pytest.mark.parametrize("place", [0, 3])
def test_changed_words_are_refused(place: int, tmp_path: Path, tokenizer: Any) -> None:
    def read(words: list[str]) -> EpochSampler:
        for name, part in (("train", words[:2]), ("test", words[2:])):
            (tmp_path / f"{name}.txt").write_text("\n".join(part) + "\n")
        return sampler_of(
            *("experiment=spag/llama2_im", "task.source=path", f"task.path={tmp_path}/train.txt"),
            *(f"task.test_path={tmp_path}/test.txt", "task.train_words=null"),
            *("task.test_words=null", "task.max_prompt_tokens=2000"),
            tokenizer=tokenizer,
        )

    state = read(WORDS).state_dict()
    read(WORDS).load_state_dict(state)
    other = [*WORDS]
    other[place] = "engine"
    with pytest.raises(ConfigError, match=r"^task: the words: the data are not those"):
        read(other).load_state_dict(state)
