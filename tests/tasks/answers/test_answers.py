from __future__ import annotations

from fractions import Fraction

import pytest

from cory.tasks.answers import final_number, number_in_data

CASES = [
    # the last number
    ("She buys 2 pens and 3 books, so 5 in all", "5"),
    ("so...5", "5"),
    # thousands
    ("1,2345", "2345"),
    (r"\boxed{1{,}000}", "1000"),
    (r"10\,000", "10000"),
    # signs
    ("\u22123", "-3"),
    ("5-3", "3"),
    ("(2)-3", "3"),
    ("--3", "3"),
    # decimals
    ("-.5", "-1/2"),
    # fractions
    ("3 5/2", "5/2"),
    ("5/0", None),
    (r"\frac{3}{4}", "3/4"),
    # currency, percent
    ("-$5", "-5"),
    ("$-5", "-5"),
    ("10%-5%", "5"),
    ("7 litres of CO2", "7"),
    # marks
    ("#### 9 * 2 = 18\nThat is for 7 days.", "18"),
    ("#### 5\n#### 18\nThat is for 7 days.", "18"),
    ("#### Step 2: add\n5 + 4 = 9", "9"),
    (r"\boxed{12\text{ eggs}} in 7 days", "12"),
    (r"\boxed{} 7", "7"),
    # numbers in LaTeX, as MATH writes them
    (r"\boxed{6\frac15}", "31/5"),
    (r"\boxed{15\mbox{ cm}^2}", "15"),
    ("the area is 15 cm^2.", "15"),
    (r"2\times3", "3"),
    # none
    ("$ % / - . , ####", None),
]


@pytest.mark.parametrize(("response", "value"), CASES)
def test_the_number_of_a_response(response: str, value: str | None) -> None:
    assert final_number(response) == (None if value is None else Fraction(value))


@pytest.mark.parametrize("part", ["1,", "1/", "-", "#### ", r"\boxed{", r"\frac{", r"\text{"])
def test_what_a_collapsed_model_says_is_read_in_no_time(part: str) -> None:
    assert final_number(part * 5_000) in (None, 1)
    assert final_number("9" * 9_000) == Fraction(10) ** 9_000 - 1


def test_a_number_alone() -> None:
    assert all(number_in_data(text) == text for text in ["-9", "$5", "1 1/2", "1,234.5"])
    assert not any(map(number_in_data, ["", "18 eggs", "18.", "5/0", "1,2", "5-3", "nine"]))
    assert number_in_data("9 * 2 = 18\n#### 18") == "18"
