from __future__ import annotations

import pytest

from cory.tasks.answers.choices import final_choice


@pytest.mark.parametrize(
    ("response", "choice"),
    [
        ("It cannot be (A). So the answer is (C).", "C"),
        ("(B)", "B"),
        ("D", "D"),
        ("D.", "D"),
        ("(A) is wrong and (B) is right: (B)", "B"),
        (r"I think (A), no: \boxed{C}", "C"),
        (r"\boxed{\text{(D)}}", "D"),
        (r"\boxed{B. Paris}", "B"),
        (r"The capital \boxed{Paris} is option (B)", "B"),  # a box that names none
        ("**Answer: A**", "A"),
        ("The answer is **B**.", "B"),
        ("The final choice is D, since 2 > 1.", "D"),
        ("The answer is A. Wait, that is (B)", "B"),
        ("The answer is Canada.", None),
        ("The answer is D'Alembert's.", None),
        ("(X)", None),
        ("(E)", None),
        ("a) or b)", None),
        ("", None),
        ("Bees make honey.", None),
    ],
)
def test_the_final_choice(response: str, choice: str | None) -> None:
    assert final_choice(response) == choice
