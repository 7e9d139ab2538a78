r"""The last box of a text, formulas that differ only in their looks."""

from __future__ import annotations

import pytest

from cory.tasks.answers import calculable, last_box, plain_formula


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        (r"So \boxed{5}.", "5"),
        (r"\boxed{\frac{1}{2}} holds", r"\frac{1}{2}"),
        (r"\boxed{\sqrt{\frac{a^{2}}{b_{1}}}}", r"\sqrt{\frac{a^{2}}{b_{1}}}"),  # nested
        (r"First \boxed{1}, then \boxed{2}.", "2"),  # several: the last
        (r"\boxed {8}", "8"),
        (r"is $\boxed 9$.", "9"),  # without braces
        ("\\boxed{ a\n  b }", "a b"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),  # escaped braces are signs
        (r"\boxed{\left\{ x \right.}", r"\left\{ x \right."),
        ("The answer is 5.", None),  # no box
        (r"\boxed{4}, again \boxed{\frac{1}{2}", None),  # cut off: the earlier one does not count
        (r"\boxed{}", None),
        (r"\boxed", None),
        (r"\boxedly{5}", None),  # another command
    ],
)
def test_the_last_box(text: str, inside: str | None) -> None:
    assert last_box(text) == inside


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"\dfrac{1}{2}", r"\frac{1}{2}"),
        (r"\left( 1,2 \right)", "(1, 2)"),
        (r"12\%", "12"),
        (r"$\$5.$", "5"),
        (r"1,\! 000", "1,000"),
        (r"3\ \mbox{cm}", "3 cm"),
    ],
)
def test_looks_do_not_count(one: str, other: str) -> None:
    assert plain_formula(one) == plain_formula(other)


@pytest.mark.parametrize(
    ("one", "other"), [("2 1/2", "21/2"), ("Ann", "ann"), (r"\frac12", r"\frac21"), ("1.5", "15")]
)
def test_what_says_something_stays(one: str, other: str) -> None:
    assert plain_formula(one) != plain_formula(other)


@pytest.mark.parametrize(
    ("formula", "form"),
    [
        ("2 1/2", r"2\frac{1}{2}"),
        (r"2\ 1/2", r"2\frac{1}{2}"),
        ("x 1/2 + 3/4", "x 1/2 + 3/4"),
        (r"12\%", "12"),
        (r"1\,000\,000", "1000000"),
        (r"1,\!000", "1000"),
        (r"(1\,000, 2)", "(1000, 2)"),
        (r"1\,0000", r"1\,0000"),
        (r"45°", r"45^\circ"),
        (r"45 \degree", r"45^\circ"),
    ],
)
def test_what_the_library_does_not_know_is_rewritten(formula: str, form: str) -> None:
    assert calculable(formula) == form
