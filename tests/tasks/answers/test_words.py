"""Labels, options and texts that responses end with."""

from __future__ import annotations

import pytest

from cory.tasks.answers import final_choice, final_label, final_text

E, N, C = "entailment", "neutral", "contradiction"


@pytest.mark.parametrize(
    ("response", "label"),
    [
        # boxes
        (r"So it follows. Answer: \boxed{entailment}", E),
        (r"\boxed{\text{Contradiction}}", C),
        (r"\boxed{entailment} no, \boxed{neutral}", N),
        # what is said outside of it does not count
        (r"This is neutral. \boxed{maybe}", None),
        (r"\boxed{entailment / neutral / contradiction}", None),
        # without one, the last label
        ("At first it seems neutral, but the date makes it a contradiction.", C),
        # none
        ("", None),
        ("The pony neighed, uncontradicted.", None),
    ],
)
def test_the_label_of_a_response(response: str, label: str | None) -> None:
    assert final_label(response) == label


@pytest.mark.parametrize(
    ("response", "choice"),
    [
        ("D", "D"),
        (r"I think (A), no: \boxed{C}", "C"),
        (r"\boxed{B. Paris}", "B"),
        # the last answer that is called so; an option in brackets may be a discussed one
        ("The answer is A. Wait, that is (B)", "A"),
        ("Option (A) fails. It’s (D).", "D"),
        (r"(C), as \Pr(A) and P'(B) and \sqrt{2}(D) show", "C"),
        ("P(A)", None),
        ("The answer is most likely (C), not (A).", "C"),
        ("The correct answer would be (C). (A) is wrong.", "C"),
        ('Answer: "C" and not (D)', "C"),
        (r"The answer is \text{C}, and not (D)", "C"),
        # ... but the last line, as the prompt asks for it
        ("If the answer is A, then 2 > 3.\nSo it is none but\n**(C)**.\n", "C"),
        # a new question
        (" C\n\nQuestion: Which?\nAnswer: A", "C"),
        ("The answer is D'Alembert's.", None),
    ],
)
def test_the_final_choice(response: str, choice: str | None) -> None:
    assert final_choice(response) == choice


@pytest.mark.parametrize(
    "part", ["answer is ", "most likely ", "the ", "(A", "(A)", "P(A)", "\n", "**", "\\boxed{", " "]
)
def test_a_collapsed_choice_is_read_in_no_time(part: str) -> None:
    assert final_choice(part * 20_000) in (None, "A")


READ = [
    ("It lies in France.\n\n  **New   York.**  \n", "new york"),
    (r"It is \boxed{\text{Paris}}, not Rome.", "paris"),
    ("Reasoning\n#### Paris\nbye", "paris"),
    ("Answer: Rome\nFinal answer: Paris\nbye", "paris"),
    ("**Answer:** “Paris”\nbye", "paris"),
    ("The answer is Paris.\nbye", "paris"),
    ("The answers: Rome, Oslo\nParis", "paris"),  # answers are no mark
    (r"Answer: Rome, or \boxed{Par", None),  # a box that is never closed
    ("ＰＡＲＩＳ", "paris"),  # noqa: RUF001  wide letters
    ("?!", None),
]


@pytest.mark.parametrize(("response", "answer"), READ)
def test_what_is_read(response: str, answer: str | None) -> None:
    assert final_text(response) == answer
