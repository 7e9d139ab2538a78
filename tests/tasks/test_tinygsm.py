"""TinyGSM: questions whose answers are computed, kept or left out."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cory.tasks.prompts import PromptsTask
from cory.tasks.sandbox.process import answer_of
from tests.support.composing import parsed
from tests.support.refusals import refusal
from tests.support.rows import write_rows


def code(body: str) -> str:
    return f'def simple_math_problem() -> int:\n    """So many."""\n    {body}\n'


ROWS = [
    ("Ada has 3 bags of 4 nuts. How many nuts?", code("return 3 * 4")),
    ("How much is a third of a pound?", code("return 1 / 3")),
    ("Ben pays 3 times $0.10. How many cents?", code("return 3 * 0.1 * 100")),
    ("What is 5 - 14?", code("return 5 - 14")),
    ("How many in all?", code("return undefined")),
    ("Who reads this?", code("return open('/etc/hostname').read()")),
    ("Ada again has 3 bags of 4 nuts.", code("return 3 * 4")),
    ("And then?", "print(3)"),
]
GSM8K = [{"question": "What is 2 + 2?", "answer": "#### 4"}]


@pytest.fixture
def make(tmp_path: Path, tokenizer: Any) -> Callable[..., PromptsTask]:
    write_rows(tmp_path / "gsm8k" / "test.jsonl", GSM8K)
    rows = [{"question": question, "code": program} for question, program in ROWS]
    write_rows(tmp_path / "tinygsm" / "train.jsonl", rows)
    settings = [
        *("task=tinygsm", "task.source=path", f"task.path={tmp_path}/gsm8k"),
        *(f"task.programs.path={tmp_path}/tinygsm", "task.train_split=train"),
        "task.max_prompt_tokens=2000",
    ]
    return lambda *overrides: PromptsTask(
        parsed(*settings, *overrides).task, tokenizer, np.random.default_rng(0)
    )


def test_the_answer_is_what_the_program_returns(make: Callable[..., PromptsTask], capsys) -> None:
    tinygsm = make()
    rows = [(prompt.id, prompt.answer) for prompt in tinygsm.parts["train"]]
    assert rows == [
        ("train.jsonl:1", "12"),
        ("train.jsonl:3", "30"),
        ("train.jsonl:4", "-9"),
        ("train.jsonl:7", "12"),
    ]
    assert tinygsm.parts["train"][0].text.startswith(ROWS[0][0] + "\n")
    assert tinygsm.is_right("3 bags of 4: 12 nuts.", "12")
    runs, leaves_out = re.findall(r"note: .*", capsys.readouterr().err)
    assert "runs 8 programs" in runs
    assert "4 of 8" in leaves_out
    # evaluated on GSM8K
    (question,) = tinygsm.held_out(None, "test")
    assert (question.answer, question.text.startswith("What is 2 + 2?\n")) == ("4", True)


def test_whole_numbers_are_answers() -> None:
    returned = ["30.000000000000004", "2.9999999999999996", "-0.0", "1e+16"]
    assert [answer_of(one) for one in returned] == ["30", "3", "0", "1" + "0" * 16]


def test_programs_without_any_answer_are_refused(make: Callable[..., PromptsTask]) -> None:
    said = refusal(lambda: make("task.programs.function=main"))
    assert said.endswith("/tinygsm: no program returned an answer")
