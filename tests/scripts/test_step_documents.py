"""scripts/step_documents.py: mistakes in steps, and what others' solutions do to them."""

from __future__ import annotations

import numpy as np
import pytest

from cory.tasks.problems import KINDS
from scripts.step_documents import (
    ALONE,
    CONFIRMED,
    DISPUTED,
    MISLED,
    STEP,
    after,
    alone,
    document,
    faultless,
    mistaken,
    worked,
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_solution_without_mistakes_stays_as_it_is(kind: str) -> None:
    stream = np.random.default_rng(0)
    for _ in range(100):
        solution = KINDS[kind](stream).solution
        assert worked(solution, lambda step, true: true) == solution


def test_later_steps_go_on_from_a_mistake() -> None:
    wrong = {"4 * 6": 34, "41 - 9": 30}
    said = worked("4 * 6 = 24. 7 + 24 = 31. 31 - 9 = 22.", lambda step, true: wrong.get(step, true))
    assert said == "4 * 6 = 34. 7 + 34 = 41. 41 - 9 = 30."
    shared = worked(
        "17 - 5 = 12 stamps to share. 12 / 2 = 6.",
        lambda step, true: 15 if step == "17 - 5" else true,
    )
    assert shared == "17 - 5 = 15 stamps to share. 15 / 2 = 7."


def test_a_mistake_is_another_number_and_none_below_zero() -> None:
    stream = np.random.default_rng(0)
    drawn = [mistaken(value, stream) for value in (0, 1, 15, 99) for _ in range(200)]
    assert min(drawn) >= 0 and len(set(drawn)) > 20
    assert all(mistaken(7, stream) != 7 for _ in range(200))


def share_of_right(others: list[str], step: str = "3 + 4", true: int = 7) -> float:
    stream = np.random.default_rng(0)
    result = after(others, stream)
    return float(np.mean([result(step, true) == true for _ in range(4000)]))


def test_others_make_a_step_surer_or_less_sure() -> None:
    right, wrong = "3 + 4 = 7.", "3 + 4 = 9."
    tolerance = 0.025
    assert share_of_right([]) == pytest.approx(1 - ALONE, abs=tolerance)
    assert share_of_right(["5 + 4 = 9."]) == pytest.approx(1 - ALONE, abs=tolerance)
    assert share_of_right([right, right]) == pytest.approx(1 - CONFIRMED, abs=tolerance)
    assert share_of_right([right, wrong]) == pytest.approx(1 - DISPUTED, abs=tolerance)
    assert share_of_right([wrong]) == pytest.approx(1 - MISLED, abs=tolerance)
    assert CONFIRMED < DISPUTED <= ALONE < MISLED


def test_who_is_misled_says_what_the_others_said() -> None:
    result = after(["3 + 4 = 9.", "3 + 4 = 8."], np.random.default_rng(0))
    assert {result("3 + 4", 7) for _ in range(100)} == {7, 8, 9}


def test_each_step_is_wrong_with_the_probability_that_was_asked() -> None:
    result = alone(0.3, np.random.default_rng(0))
    assert np.mean([result("1 + 1", 2) != 2 for _ in range(4000)]) == pytest.approx(0.3, abs=0.025)


def test_documents_hold_a_question_none_to_five_solutions_and_an_answer() -> None:
    stream = np.random.default_rng(0)
    documents = [document(stream, ["chain", "story"]) for _ in range(300)]
    assert {prompt.count(" Reference: ") for prompt, _ in documents} == {0, 1, 2, 3, 5}
    assert all(p.startswith("Question: ") and p.endswith(" Answer:") for p, _ in documents)
    assert all(answer.startswith(" ") and STEP.search(answer) for _, answer in documents)


def test_first_come_questions_alone_with_right_answers() -> None:
    stream = np.random.default_rng(0)
    for _ in range(100):
        prompt, answer = faultless(stream, ["chain"])
        assert "Reference" not in prompt
        assert worked(answer, lambda step, true: true) == answer
