"""A run goes on only with the data that it began with, whatever the task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
