"""One question with answers that differ, in the files of every task that has answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoTokenizer

from cory.config import ConfigError, builder
from tests.support.composing import parsed


def rows_of(task: str, asked: list[int], answers: list[int]) -> list[dict[str, Any]]:
    """Rows as the task's file has them, each a question by number and the number of its answer."""
    pairs = zip(asked, answers, strict=True)
    if task == "gsm8k":
        return [{"question": f"What is {n}?", "answer": f"#### {a}"} for n, a in pairs]
    if task == "math":
        return [
            {"problem": f"What is {n}?", "solution": rf"\boxed{{{a}}}", "level": 1}
            for n, a in pairs
        ]
    if task == "anli":
        return [{"premise": f"It is {n}.", "hypothesis": "It is.", "label": a} for n, a in pairs]
    return [
        {"question": f"What is {n}?", "choices": ["a", "b", "c", "d"], "answer": a}
        for n, a in pairs
    ]


@pytest.mark.parametrize("task", ["gsm8k", "math", "anli", "mmlu"])
def test_contradictions_in_files_are_refused_unless_they_are_allowed(
    task: str, tmp_path: Path, tiny_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.jsonl"
    words = [f"task={task}", "task.source=path", f"task.path={path}"]
    words += ["task.train_split='train[:50%]'", "task.test_split='train[50%:]'"]
    words += ["task.pick_train=null", "task.pick_test=null", "task.max_prompt_tokens=2000"]
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)

    def make(answers: list[int], *more: str) -> None:
        rows = rows_of(task, [0, 1, 1, 2, 3, 4, 5, 6], answers)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        builder("task", task)(parsed(*words, *more).task, tokenizer, np.random.default_rng(0))

    said = f"task.path={path}: 1 of 7 questions have answers that contradict each other; "
    with pytest.raises(ConfigError) as refused:
        make([0, 1, 2, 0, 1, 2, 0, 1])
    assert str(refused.value).startswith(said)
    assert str(refused.value).endswith("; task.contradictions=allowed takes them as they are")
    capsys.readouterr()
    make([0, 1, 2, 0, 1, 2, 0, 1], "task.contradictions=allowed")
    assert f"note: {said}" in capsys.readouterr().err
    make([0, 1, 1, 0, 1, 2, 0, 1])
    assert "that contradict" not in capsys.readouterr().err
