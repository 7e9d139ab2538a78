"""Instruction data: prompts with and without an input, and rows without an answer."""

from __future__ import annotations

from pathlib import Path

from cory.config import InstructionsConfig
from cory.tasks.game import load_instructions
from tests.tasks.rows import write_rows

ROWS = [
    {"instruction": " Add the numbers. ", "input": "1 2", "output": " 3 "},
    {"instruction": "Say yes.", "input": "", "output": "yes"},
    {"instruction": "Say nothing.", "input": "", "output": " "},
    {"instruction": None, "input": "1", "output": "what?"},
    {"instruction": "How many?", "input": "", "output": "0"},
]


def test_the_input_of_an_instruction_is_in_its_prompt(tmp_path: Path) -> None:
    config = InstructionsConfig(
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
    found = load_instructions(config)
    assert found == [("Add the numbers.|1 2>", "3"), ("Say yes.>", "yes"), ("How many?>", "0")]
    without = load_instructions(config.replace(input_column=None))
    assert without == [("Add the numbers.>", "3"), *found[1:]]
