"""Answers that are words: the marked ones, else the last line."""

from __future__ import annotations

import pytest

from cory.tasks.answers.texts import final_text

READ = [
    ("Paris", "paris"),
    ("It lies in France.\n\n  **New   York.**  \n", "new york"),
    (r"It is \boxed{\text{Paris}}, not Rome.", "paris"),
    (r"\boxed{Rome}? No: \boxed{Paris}", "paris"),
    (r"Answer: \boxed{Paris}." + "\nThat was easy.", "paris"),  # a box counts before other marks
    ("Reasoning\n#### Paris\nbye", "paris"),
    ("Answer: Rome\nFinal answer: Paris\nbye", "paris"),
    ("**Answer:** “Paris”\nbye", "paris"),
    ("The answer is Paris.\nbye", "paris"),
    ("The answers: Rome, Oslo\nParis", "paris"),  # answers are no mark
    ("Answer:\nParis", "paris"),  # nothing follows on the mark's line
    (r"Answer: Rome, or \boxed{Par", None),  # a box that is never closed
    (r"Answer: \boxed{...}", None),  # an echo of the prompt
    ("ＰＡＲＩＳ", "paris"),  # noqa: RUF001  wide letters
    ("C++", "c++"),
    ("-5 %", "-5 %"),
    ("Paris\nQuestion: And of Italy?\nRome", "paris"),
    ("", None),
    (" \n ", None),
    ("?!", None),
    ("Question: Rome", None),
]


@pytest.mark.parametrize(("response", "answer"), READ)
def test_what_is_read(response: str, answer: str | None) -> None:
    assert final_text(response) == answer
