r"""The last box of a text, formulas that differ only in their looks."""

from __future__ import annotations

import pytest

from cory.tasks.formulas import calculable, last_box, plain_formula


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        (r"\boxed{\sqrt{\frac{a^{2}}{b_{1}}}}", r"\sqrt{\frac{a^{2}}{b_{1}}}"),  # nested
        (r"is $\boxed 9$.", "9"),  # without braces
        (r"\boxed{\left\{ x \right.}", r"\left\{ x \right."),  # escaped braces are signs
        (r"\boxed{4}, again \boxed{\frac{1}{2}", None),  # cut off: the earlier one does not count
        (r"\boxed{}", None),
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


def test_what_says_something_stays() -> None:
    assert plain_formula("2 1/2") != plain_formula("21/2")
    assert plain_formula("Ann") != plain_formula("ann")


@pytest.mark.parametrize(
    ("formula", "form"),
    [
        (r"2\ 1/2", r"2\frac{1}{2}"),
        ("x 1/2 + 3/4", "x 1/2 + 3/4"),
        (r"1\,000\,000", "1000000"),
        (r"1,\!000", "1000"),
        (r"1\,0000", r"1\,0000"),
        (r"45°", r"45^\circ"),
        (r"45 \degree", r"45^\circ"),
    ],
)
def test_what_the_library_does_not_know_is_rewritten(formula: str, form: str) -> None:
    assert calculable(formula) == form
