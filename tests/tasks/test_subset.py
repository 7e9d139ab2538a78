"""So many training and test problems, the same for every run, none in both; instructions."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cory.config import InstructionsConfig
from cory.episode import Prompt
from cory.seeding import EpochSampler
from cory.tasks.game import load_instructions
from cory.tasks.prompts import PromptsTask, pick_subset
from tests.support.composing import parsed
from tests.support.refusals import refusal
from tests.support.rows import write_rows

ROWS = [{"question": f"What is {n} + 1?", "answer": f"#### {n + 1}"} for n in range(40)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_rows(tmp_path / "train.jsonl", ROWS[:25])
    write_rows(tmp_path / "test.jsonl", ROWS[25:])
    return tmp_path


def task(path: Path, tokenizer: Any, *overrides: str, seed: int = 0) -> PromptsTask:
    where = ["task=gsm8k", "task.source=path", f"task.path={path}", "task.max_prompt_tokens=2000"]
    return PromptsTask(parsed(*where, *overrides).task, tokenizer, np.random.default_rng(seed))


def ids(made: Any, part: str) -> list[str]:
    return [prompt.id for prompt in made.parts[part]]


def texts(made: Any, part: str) -> set[str]:
    return {prompt.text for prompt in made.parts[part]}


def test_runs_of_all_seeds_pick_the_same_problems(folder: Path, tokenizer: Any) -> None:
    size = ["task.pick_train=8", "task.pick_test=6"]
    one, other = (task(folder, tokenizer, *size, seed=seed) for seed in (0, 1))
    assert one.parts == other.parts
    assert [len(ids(one, part)) for part in ("train", "test")] == [8, 6]
    assert one.held_out(None, "test") == one.parts["test"]
    assert one.sample(8) != other.sample(8)  # in another order
    # not the first rows, and others with another seed
    assert sorted(ids(one, "test")) != [f"test.jsonl:{n + 1}" for n in range(6)]
    third = task(folder, tokenizer, *size, "task.pick_seed=1")
    assert third.parts != one.parts


def test_both_may_come_from_one_split_and_share_nothing(folder: Path, tokenizer: Any) -> None:
    one_split = ["task.train_split=train", "task.test_split=train"]
    every = ["task.pick_train=15", "task.pick_test=10", "task.pick_seed=4"]
    made = task(folder, tokenizer, *one_split, *every)
    assert len(texts(made, "train") | texts(made, "test")) == 25
    # from one file, too
    assert task(folder / "train.jsonl", tokenizer, *one_split, *every).parts == made.parts
    # all that are left
    rest = task(folder, tokenizer, *one_split, "task.pick_test=10", "task.pick_seed=4")
    assert sorted(ids(rest, "train")) == sorted(ids(made, "train"))


def test_the_pick_is_the_same_on_every_machine() -> None:
    """Another version of NumPy must not move problems from the training to the test."""
    config = parsed("task=gsm8k_maft", "task.pick_train=3", "task.pick_test=3").task
    prompts = [Prompt(str(n), str(n)) for n in range(20)]
    train, test = pick_subset(config, prompts, prompts)
    assert [p.id for p in train] == ["15", "1", "9"]
    assert [p.id for p in test] == ["4", "19", "6"]


@pytest.mark.parametrize("place", [1, 24])  # of the training, and of the test
def test_a_run_goes_on_only_with_its_own_data(place: int, tmp_path: Path, tokenizer: Any) -> None:
    file = tmp_path / "mine.jsonl"

    def sampler() -> EpochSampler:
        slices = ["task.train_split='train[:20]'", "task.test_split='train[20:]'"]
        return task(file, tokenizer, *slices).sampler

    rows = ROWS[:25]
    write_rows(file, rows)
    first = sampler()
    drawn = [first.rows.index(first.next()) for _ in range(2)]
    state = json.loads(json.dumps(first.state_dict()))
    again = sampler()
    again.load_state_dict(state)
    assert sorted([*drawn, *again.left]) == list(range(20))
    rows[place] = {**rows[place], "question": "More?"}
    write_rows(file, rows)
    said = refusal(lambda: sampler().load_state_dict(state))
    assert said.startswith("task.path=") and "are not those that this run began with" in said


INSTRUCTIONS = [
    {"instruction": " Add the numbers. ", "input": "1 2", "output": " 3 "},
    {"instruction": "Say yes.", "input": "", "output": "yes"},
    {"instruction": "Say nothing.", "input": "", "output": " "},
    {"instruction": None, "input": "1", "output": "what?"},
    {"instruction": "How many?", "input": "", "output": "0"},
]


def test_the_input_of_an_instruction_is_in_its_prompt(tmp_path: Path) -> None:
    config = InstructionsConfig(
        source="path",
        path=str(write_rows(tmp_path / "rows.jsonl", INSTRUCTIONS)),
        split="train",
        instruction_column="instruction",
        input_column="input",
        output_column="output",
        template="{instruction}>",
        input_template="{instruction}|{input}>",
        per_iteration=1,
        max_tokens=64,
    )
    found = load_instructions(config)
    assert found == [("Add the numbers.|1 2>", "3"), ("Say yes.>", "yes"), ("How many?>", "0")]
    without = load_instructions(config.replace(input_column=None))
    assert without == [("Add the numbers.>", "3"), *found[1:]]
