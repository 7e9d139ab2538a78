from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cory.config import ConfigError
from cory.episode import Prompt
from cory.tasks.anli import AnliTask
from tests.support.composing import parsed
from tests.support.refusals import refusal
from tests.tasks.rows import write_rows

LABELS = ("entailment", "neutral", "contradiction")
TRAIN = [
    {"premise": f"Ada has {n} {{nuts}}.", "hypothesis": f"She has {2 * n}.", "label": n % 3}
    for n in range(30)
]
TEST = [
    {"premise": "It rained all day. ", "hypothesis": "The sun never shone.", "label": "neutral"},
    {"premise": "It rained all day.", "hypothesis": "It was wet.", "label": "entailment"},
    {"premise": "It rained all day.", "hypothesis": "It was dry.", "label": "contradiction"},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_rows(tmp_path / "train_r3.jsonl", TRAIN)
    write_rows(tmp_path / "test_r3.jsonl", TEST)
    return tmp_path


def task(path: Path, tokenizer: Any, *overrides: str, seed: int = 0) -> AnliTask:
    settings = [
        "task=anli",
        "task.source=path",
        f"task.path={path}",
        "task.train_split='train_r3[10:]'",
        "task.max_prompt_tokens=2000",
    ]
    return AnliTask(parsed(*settings, *overrides).task, tokenizer, np.random.default_rng(seed))


def test_a_label_of_a_column_with_gaps_is_a_number_with_a_point(
    folder: Path, tokenizer: Any
) -> None:
    write_rows(folder / "test_r3.jsonl", [{**TEST[0], "label": 2.0}])
    assert task(folder, tokenizer).held_out(1, "test")[0].answer == "contradiction"


def test_a_prompt_holds_premise_and_hypothesis_and_asks_for_a_box(
    folder: Path, tokenizer: Any
) -> None:
    anli = task(folder, tokenizer)
    prompt = anli.held_out(1, "test")[0]
    assert (prompt.id, prompt.answer) == ("anli-test-0", "neutral")
    assert prompt.text.startswith(
        "Premise: It rained all day.\nHypothesis: The sun never shone.\n\nHow does the hypothesis"
    )
    assert prompt.text.endswith("Answer: \\boxed{...}")
    assert all(prompt.text.count(f"- {label}: ") == 1 for label in LABELS)
    # an echo of the prompt is no answer
    assert anli.read(prompt.text) is None
    # braces of the data are left alone
    assert "Ada has 10 {nuts}.\n" in anli.parts["train"][0].text


def test_a_response_is_right_when_it_names_the_label(folder: Path, tokenizer: Any) -> None:
    anli = task(folder, tokenizer)
    assert anli.read(r"So it is. \boxed{Entailment}") == "entailment"
    assert anli.read("I do not know.") is None
    said = [r"\boxed{entailment}", "Neutral, not an entailment", r"\boxed{?}", "It is entailed."]
    assert [anli.is_right(text, "entailment") for text in said] == [True, False, False, True]


def test_a_pair_from_elsewhere(folder: Path, tokenizer: Any) -> None:
    anli = task(folder, tokenizer)
    probe = anli.prompt_of("It rained.\nIt poured.\n It was wet. ")
    text = "Premise: It rained.\nIt poured.\nHypothesis: It was wet.\n"
    assert probe == Prompt("probe", probe.text) and probe.text.startswith(text)
    with pytest.raises(ConfigError, match=r"a line break and a hypothesis; got 'It rained.'$"):
        anli.prompt_of("It rained.")


@pytest.mark.parametrize(
    ("overrides", "change", "said"),
    [
        ("", {"label": [1]}, "row train-20: 'label' must be 0, 1, 2 or one of entailment"),
        ("", {"label": None}, "row train-20: 'label' must be 0, 1, 2 or one of"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(
    overrides: str, change: dict[str, Any], said: str, folder: Path, tokenizer: Any
) -> None:
    write_rows(folder / "train_r3.jsonl", [*TRAIN, {**TRAIN[0], **change}])
    message = refusal(lambda: task(folder, tokenizer, *overrides.split()))
    assert said.replace("{tmp}", str(folder)) in message
