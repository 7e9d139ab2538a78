"""Numbers, labels, options, texts and formulas that responses end with; what is equal."""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest

from cory.tasks.answers import final_choice, final_label, final_number, final_text, number_in_data
from cory.tasks.formulas import calculable, equal, last_box, plain_formula

CASES = [
    # the last number
    ("She buys 2 pens and 3 books, so 5 in all", "5"),
    ("so...5", "5"),
    # thousands
    ("1,2345", "2345"),
    (r"\boxed{1{,}000}", "1000"),
    (r"10\,000", "10000"),
    ("1\u202f234\u00a0567", "1234567"),
    ("about 1.5e3", "1500"),
    ("2e-2", "1/50"),
    (r"6 \times 10^{5}", "600000"),
    ("3 \u00d7 10^2 m", "300"),
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
        ("B. Paris", "B"),
        (" D) none of them\n", "D"),
        ("B. Paris\nC. Rome", None),
        ("A: the answer = B", "B"),
        (r"Answer: \(\text{B}\), not (A)", "B"),
        ("The answer should be (C). Note that (A) is false.", "C"),
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
    ("<answer>Rome</answer> or <answer> New\nYork</answer>\nbye", "new york"),
    ("ＰＡＲＩＳ", "paris"),  # noqa: RUF001  wide letters
    ("?!", None),
]


@pytest.mark.parametrize(("response", "answer"), READ)
def test_what_is_read(response: str, answer: str | None) -> None:
    assert final_text(response) == answer


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
def test_what_cannot_be_calculated_ends_in_time(capsys) -> None:
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
