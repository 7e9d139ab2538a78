from __future__ import annotations

import pytest

from cory.tasks.answers.choices import final_choice


@pytest.mark.parametrize(
    ("response", "choice"),
    [
        ("It cannot be (A). So the answer is (C).", "C"),
        ("D", "D"),
        (r"I think (A), no: \boxed{C}", "C"),
        (r"\boxed{\text{(D)}}", "D"),
        (r"\boxed{B. Paris}", "B"),
        (r"The capital \boxed{Paris} is option (B)", "B"),  # a box that names none
        ("**Answer: A**", "A"),
        ("The marker is most likely D-dimer, which points to (B).", "B"),
        ("It is most likely B because of its size; (A) is not.", "B"),
        ("Most likely B\nthe others, as (A), are wrong", "B"),
        ("The answer is B the heart", "B"),
        # the last answer that is called so; an option in brackets may be a discussed one
        ("The answer is A. Wait, that is (B)", "A"),
        ("The answer is A. Wait, the answer is (B)", "B"),
        ("The answer is (C). It follows that P(A) = 0.5.", "C"),
        ("(C): there P (A) is largest, and f(B)", "C"),
        ("Option (A) fails. It’s (D).", "D"),
        (r"(C), as \Pr(A) and P'(B) and \sqrt{2}(D) show", "C"),
        ("P(A)", None),
        ("The answer is most likely (C), not (A).", "C"),
        ("The correct answer would be (C). (A) is wrong.", "C"),
        ('Answer: "C" and not (D)', "C"),
        (r"The answer is \text{C}, and not (D)", "C"),
        # ... but the last line, as the prompt asks for it
        ("If the answer is A, then 2 > 3.\nSo it is none but\n**(C)**.\n", "C"),
        ("The answer is not (A)", "A"),  # nothing else is said
        ("It is likely that (A) is wrong: (B)", "B"),
        # a new question
        ("The answer is (C).\n\nQuestion: Which? (A) or (B)? The answer is (A).", "C"),
        (" C\n\nQuestion: Which?\nAnswer: A", "C"),
        ("Question: Which? (A)", None),
        ("The question: which? (A)", "A"),
        ("The answer is D'Alembert's.", None),
        ("a) or b)", None),
        ("", None),
    ],
)
def test_the_final_choice(response: str, choice: str | None) -> None:
    assert final_choice(response) == choice


@pytest.mark.parametrize(
    "part", ["answer is ", "most likely ", "the ", "(A", "(A)", "P(A)", "\n", "**", "\\boxed{", " "]
)
def test_a_collapsed_response_is_read_in_no_time(part: str) -> None:
    assert final_choice(part * 20_000) in (None, "A")
