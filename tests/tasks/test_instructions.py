"""Instruction data: prompts with and without an input, and rows without an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from cory.config import ConfigError, InstructionsConfig
from cory.tasks.instructions import load_instructions
from tests.tasks.rows import write_rows

ROWS = [
    {"instruction": " Add the numbers. ", "input": "1 2", "output": " 3 "},
    {"instruction": "Say yes.", "input": "", "output": "yes"},
    {"instruction": "Say nothing.", "input": "", "output": " "},
    {"instruction": None, "input": "1", "output": "what?"},
    {"instruction": "How many?", "input": "", "output": "0"},
]


@pytest.fixture
def config(tmp_path: Path) -> InstructionsConfig:
    return InstructionsConfig(
        source="path",
        path=str(write_rows(tmp_path / "rows.jsonl", ROWS)),
        split="train",
        instruction_column="instruction",
        input_column="input",
        output_column="output",
        template="{instruction}>",
        input_template="{instruction}|{input}>",
        per_iteration=1,
        max_tokens=64,
    )


def test_the_input_of_an_instruction_is_in_its_prompt(config: InstructionsConfig) -> None:
    assert load_instructions(config) == [
        ("Add the numbers.|1 2>", "3"),
        ("Say yes.>", "yes"),
        ("How many?>", "0"),
    ]


def test_without_an_input_column_prompts_have_no_input(config: InstructionsConfig) -> None:
    prompts = [prompt for prompt, _ in load_instructions(config.replace(input_column=None))]
    assert prompts == ["Add the numbers.>", "Say yes.>", "How many?>"]


def test_a_column_that_is_missing_is_refused(config: InstructionsConfig) -> None:
    with pytest.raises(ConfigError, match=r"^algorithm\.instructions\.input_column=text is not in"):
        load_instructions(config.replace(input_column="text"))
