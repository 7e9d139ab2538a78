r"""MATH: formulas in boxes, their equality, and the choice of problems."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset
from pydantic import ValidationError

from cory.config import ConfigError, ExactMatchConfig, MathConfig
from cory.config.errors import lines_of
from cory.episode import Episode, Turn
from cory.functional.votes import VoteRule
from cory.rewards.exact_match import ExactMatch
from cory.tasks.mathematics import SUBJECTS, MathTask
from cory.tasks.sandbox.equality import Equality
from tests.support.composing import parsed
from tests.support.refusals import refusal
from tests.tasks.rows import write_rows

ROWS = [
    {"problem": f"What is ${n}+1$?", "solution": f"It is $\\boxed{{{n + 1}}}$.", "level": level}
    for n, level in enumerate(["Level 1", "Level 3", "Level 5", "Level ?", "2"] * 4)
]


@pytest.fixture(scope="module")
def equal() -> Iterator[Equality]:
    made = Equality(5)
    yield made
    made.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_rows(tmp_path / "train.jsonl", ROWS[:10])
    write_rows(tmp_path / "test.jsonl", ROWS[10:])
    return tmp_path


@pytest.fixture(scope="module")
def composed() -> MathConfig:
    config = parsed("task=math").task
    assert isinstance(config, MathConfig)
    return config


@pytest.fixture
def task(composed: MathConfig, folder: Path, tokenizer: Any) -> Callable[..., MathTask]:
    """Makes the task of the folder's problems, with other values for some settings."""
    whole = composed.replace(
        source="path",
        path=str(folder),
        max_prompt_tokens=2000,
        pick_train=None,
        pick_test=None,
    )

    def make(**values: Any) -> MathTask:
        return MathTask(whole.replace(**values), tokenizer, np.random.default_rng(0))

    return make


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"\frac{1}{2}", "1/2"),
        ("1,000", "1000"),  # thousands
        (r"90^{\circ}", r"90\text{ degrees}"),
        (r"5\text{ cm}", "5"),  # units
        ("[1,2)", r"\left[ 1, 2 \right)"),  # intervals
        ("(3, \\frac{\\pi}{2})", r"\left(3,\frac{1}{2}\pi\right)"),  # tuples
        (r"3\text{ or }5", "5,3"),
        (r"2\frac{1}{2}", "5/2"),  # mixed numbers
        (r"\text{Evelyn}", "Evelyn"),  # words
        (r"\frac{1}{}", r"\frac{1}{}"),  # no formula, but the same
        ("45°", r"45^\circ"),
        (r"1{,}000{,}000", r"1\,000\,000"),
        (r"0.\overline{3}", r"\frac13"),
        (r"[1,2)", r"1\le x<2"),
        (r"(-\infty,3]", r"x \leq 3"),
        (r"(2,\infty)", r"\{x : x > 2\}"),
        (r"(-\infty,1]\cup(2,\infty)", r"x\leq 1 \text{ or } x>2"),
    ],
)
def test_equal_formulas(one: str, other: str, equal: Equality) -> None:
    assert equal(one, other) and equal(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2516_8", "2516_9"),
        (r"1\,000\,000", r"1{,}000"),
        (r"0.\overline{3}", "0.3"),
        (r"(-\infty,3]", "x<3"),
        (r"(-\infty,1]\cup(2,\infty)", r"x<1 \text{ or } x>2"),
        ("0.333", r"\frac13"),
        ("(1,2)", "[1,2]"),
        ("12t", "12"),  # letters after a number are no units
        ("2 1/2", "3/2"),
        (r"\frac{1}{}", "1"),
    ],
)
def test_different_formulas(one: str, other: str, equal: Equality) -> None:
    assert not equal(one, other) and not equal(other, one)


def test_each_pair_is_compared_once(equal: Equality, monkeypatch: pytest.MonkeyPatch) -> None:
    assert equal("4/2", "2") and not equal("4/2", "3")
    monkeypatch.setattr(equal, "_compare", None)
    assert equal("2", "4/2") and not equal("3", "4/2") and equal("7 ", "7")


@pytest.mark.slow
def test_what_cannot_be_calculated_ends_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    """In any thread; the next comparison is answered as if nothing had been."""
    hasty, nested = Equality(1), "x"
    for _ in range(8):
        nested = rf"\frac{{1}}{{1+{nested}}}"
    with ThreadPoolExecutor(1) as pool:
        found = [
            pool.submit(hasty, formula, "5").result()
            for formula in ("10^{10^{10}}", nested, "4+1", "9" * 501)
        ]
    assert found == [False, False, True, False]
    assert hasty("10^{10^{10}}", "10^{10^{10}}")  # one text is equal to itself
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "note: task.seconds=1: '10^{10^{10}}' and '5' cannot be compared in time; they count as "
        "different"
    ]
    child = hasty.child
    assert child is not None
    hasty.close()
    assert child.returncode == 0


@pytest.mark.slow
def test_a_comparer_that_somebody_else_ends_is_no_answer() -> None:
    ended = Equality(5)
    assert ended("4+1", "5")
    assert ended.child is not None
    # while it waits for the next one
    ended.child.kill()
    ended.child.wait()
    assert ended("4+2", "6") and ended.child is not None
    # in the midst of a comparison, which takes minutes
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ended, "10^{10^{10}}", "5")
        time.sleep(1)  # it has the question; one that is ended before gets a successor
        os.kill(ended.child.pid, signal.SIGKILL)
        with pytest.raises((RuntimeError, BrokenPipeError)):
            waiting.result()


def test_answers_are_counted_by_what_they_say(task: Callable[..., MathTask]) -> None:
    math = task()
    said = [r"\boxed{1/2}", r"so \boxed{\frac12}", r"\boxed{0.5}", r"\boxed{2}", r"\boxed{...}", ""]
    answers = [math.read(text) for text in said]
    assert [None if answer is None else str(answer) for answer in answers] == [
        "1/2", r"\frac12", "0.5", "2", None, None
    ]  # fmt: skip
    assert list(Counter(answers).values()) == [3, 1, 2]
    rule = VoteRule("lexicographic", "counted")
    assert rule.winners(answers) == [answers[0]] == [math.read(r"\boxed{\dfrac{2}{4}}")]
    assert answers[0] != "1/2" and answers[0] is not None
    # ties by the text
    tied = [math.read(r"\boxed{3}"), math.read(r"\boxed{1/2}")]
    right = math.read(r"\boxed{0.5}")
    assert right is not None and rule.score(tied, right) == 1


def test_a_response_is_right_when_its_box_equals_the_solutions(
    folder: Path, task: Callable[..., MathTask]
) -> None:
    write_rows(
        folder / "test.jsonl", [{**ROWS[1], "problem": "Half?", "solution": r"\boxed{\frac12}"}]
    )
    math = task()
    (prompt,) = math.held_out(None, "test")
    assert (prompt.id, prompt.answer) == ("math-test-0", r"\boxed{\frac12}")
    said = [r"\boxed{\frac{2}{4}}", r"\boxed{0.5} or \boxed{2}", "0.5", prompt.text]
    turns = [Turn("a", "solo", 0, "", text, [1], [2]) for text in said]
    ExactMatch(ExactMatchConfig(name="exact_match"), math, None).score([Episode(prompt, turns)])
    assert [turn.score for turn in turns] == [1.0, 0.0, 0.0, 0.0]
    assert math.read(prompt.text) is None  # an echo of the prompt is no answer


def test_problems_of_the_levels_that_are_asked_for(task: Callable[..., MathTask]) -> None:
    few = task()
    assert [prompt.id for prompt in few.parts["train"]] == [
        f"math-train-{row}" for row in (0, 1, 4, 5, 6, 9)
    ]
    every = task(levels=None).parts
    assert [len(every[part]) for part in ("train", "test")] == [10, 10]
    hardest = task(levels=[5]).parts["test"]
    assert [(prompt.id, prompt.answer) for prompt in hardest] == [
        ("math-test-2", r"\boxed{13}"), ("math-test-7", r"\boxed{18}")
    ]  # fmt: skip


def test_the_message_asks_for_bullet_points_and_a_box(task: Callable[..., MathTask]) -> None:
    math = task()
    prompt = math.held_out(1, "test")[0]
    assert prompt.text.startswith("What is $10+1$?\n\nSolve") and "bullet" in prompt.text
    assert prompt.text.endswith("Answer: \\boxed{...}")
    assert math.prompt_of(" Why? ").text == prompt.text.replace("What is $10+1$?", "Why?")
    seen = math.observer_context(prompt.text, ["It is {1}. ", "It is 2."])
    assert seen.startswith(f"{prompt.text}\n\nSomebody else has answered:\nIt is {{1}}.\n\nAnd")


def test_all_subjects_come_from_the_hub(
    monkeypatch: pytest.MonkeyPatch, composed: MathConfig, tokenizer: Any
) -> None:
    asked: list[tuple[str, str, str]] = []

    def given(path: str, subset: str, split: str, key: str) -> Dataset:
        asked.append((path, subset, split))
        return Dataset.from_list([{**ROWS[1], "problem": f"{subset} of {split}"}])

    monkeypatch.setattr("cory.tasks.data.tables.hub_table", given)
    settings = composed.replace(pick_train=5, pick_test=4)
    math = MathTask(settings, tokenizer, np.random.default_rng(0))
    hub = "EleutherAI/hendrycks_math"
    assert asked == [(hub, name, split) for split in ("train", "test") for name in SUBJECTS]
    assert [len(part) for part in math.parts.values()] == [5, 4]


def test_testing_on_training_problems_is_refused(
    folder: Path, task: Callable[..., MathTask]
) -> None:
    """As the paper's released code does."""
    assert refusal(lambda: task(train_split="test")).startswith(
        f"task.path={folder}: every training prompt is a test prompt, too; choose task.train_split"
    )
    made = task(train_split="test", pick_train=3, pick_test=3).parts
    assert len({prompt.text for part in made.values() for prompt in part}) == 6


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"solution": "It is 5."}, "row train-10: 'solution' must hold its answer in a closed"),
        ({"solution": r"\boxed{\frac{1}{2}"}, "row train-10: 'solution' must hold its answer"),
        ({"level": "hard"}, "row train-10: 'level' must be 1 to 5, alone or as 'Level 3'"),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_used_are_refused(
    change: dict[str, Any], said: str, folder: Path, task: Callable[..., MathTask]
) -> None:
    write_rows(folder / "train.jsonl", [*ROWS[:10], {**ROWS[0], "problem": "Why?", **change}])
    assert said.replace("{tmp}", str(folder)) in refusal(lambda: task())


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"level_column": "grade"}, "task.level_column=grade is not in the data; it has problem"),
        ({"levels": [4]}, "task.levels=[4]: no train problem is of such a level"),
        ({"levels": [0, 1]}, "levels=0: number 1 must be 1, 2, 3, 4 or 5"),
        (
            {"source": "hub", "subjects": ["alchemy"]},
            "task.subjects: alchemy is not one",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(
    values: dict[str, Any], said: str, task: Callable[..., MathTask]
) -> None:
    with pytest.raises((ConfigError, ValidationError)) as refusal:
        task(**values)
    error = refusal.value
    (line,) = lines_of(error) if isinstance(error, ValidationError) else str(error).splitlines()
    assert said in line
