"""Formulas that are equal and those that are not, and comparisons that have no end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from cory.tasks.formulas import equal


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"\frac{1}{2}", "1/2"),
        (r"90^{\circ}", r"90\text{ degrees}"),
        (r"5\text{ cm}", "5"),  # units
        ("(3, \\frac{\\pi}{2})", r"\left(3,\frac{1}{2}\pi\right)"),  # tuples
        (r"3\text{ or }5", "5,3"),
        (r"2\frac{1}{2}", "5/2"),  # mixed numbers
        (r"[1,2)", r"1\le x<2"),
        (r"(-\infty,3]", r"x \leq 3"),
    ],
)
def test_equal_formulas(one: str, other: str) -> None:
    assert equal(one, other, 5) and equal(other, one, 5)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"1\,000\,000", r"1{,}000"),
        (r"(-\infty,3]", "x<3"),
        ("0.333", r"\frac13"),
        ("(1,2)", "[1,2]"),
        ("12t", "12"),  # letters after a number are no units
        ("2 1/2", "3/2"),
        (r"\frac{1}{}", "1"),
    ],
)
def test_different_formulas(one: str, other: str) -> None:
    assert not equal(one, other, 5) and not equal(other, one, 5)


@pytest.mark.slow
def test_what_cannot_be_calculated_ends_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    """In any thread; the next comparison is answered as if nothing had been."""
    with ThreadPoolExecutor(1) as pool:
        found = [
            pool.submit(equal, formula, "5", 2).result()
            for formula in ("10^{10^{10}}", "4+1", "9" * 501)
        ]
    assert found == [False, True, False]
    assert equal("10^{10^{10}}", "10^{10^{10}}", 2)  # one text is equal to itself
    assert not equal("5", "10^{10^{10}}", 2)  # each pair is compared once
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "note: task.seconds=2: '10^{10^{10}}' and '5' cannot be compared; they count as different"
    ]
