r"""Formulas in the form that math-verify can calculate with, and numerals of other bases.

The library knows neither percent nor mixed numbers as 2 1/2, no repeating decimals as
`0.\overline{3}`, no `1\,000`, no degree sign, and no alternatives of inequalities. It takes the
base of `2516_8` for an index, which it leaves out.
"""

import re

from cory.tasks.answers.formulas import PERCENT, plain_formula

MIXED = re.compile(r"\b([0-9]+)(?: |\\ )([0-9]+)/([0-9]+)\b")
REPEATING = re.compile(
    r"(?<![0-9.])([0-9]*)\.([0-9]*)\\(?:overline|bar)\s*(?:\{([0-9]+)\}|([0-9]))"
)
THOUSANDS = re.compile(r"(?<![0-9.])[0-9]{1,3}(?:(?:\\,|\{,\}|,\\!)[0-9]{3})+(?![0-9])")
DEGREES = re.compile(r"\s*(?:°|\\degree(?![a-zA-Z]))")
GAPS = re.compile(r"~|(?<!\\)\\[,;: ]")  # \\ ends a row of a matrix
WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
BASED = re.compile(
    r"(?:[a-zA-Z]=)?\(?([0-9][0-9A-Z]*|[A-Z]+[0-9][0-9A-Z]*)\)?"
    r"(?:_\{?\(?(?:base ?)?([0-9]{1,2}|[a-z]+)\)?\}?| ?\(?base ?([0-9]{1,2}|[a-z]+)\)?)"
)
OR = re.compile(
    r"\s*(?:\\(?:text|mbox|textrm|mathrm)\s*\{\s*or\s*\}|\bor\b|\\(?:lor|vee)(?![a-zA-Z]))\s*"
)
RELATIONS = [  # as signs, of which each turns into another where the sides change places
    (re.compile(r"\\leq?(?:slant)?(?![a-zA-Z])"), "≤"),
    (re.compile(r"\\geq?(?:slant)?(?![a-zA-Z])"), "≥"),
]
TURNED = str.maketrans("<>≤≥", "><≥≤")
SET = re.compile(r"\\\{\s*[a-z]\s*(?::|\\mid(?![a-zA-Z])|\|)\s*(.*)\\\}")  # \{x : x > 2\}
ALONE = re.compile(r"[a-z]([<>≤≥])([^<>≤≥]+)")
BETWEEN = re.compile(r"([^<>≤≥]+)([<≤])[a-z]([<≤])([^<>≤≥]+)")


def calculable(formula: str) -> str:
    """The formula for math-verify. Where a question asks for percent, 12 means 12 %."""
    formula = SET.sub(r"\1", formula.strip())
    text = REPEATING.sub(_fraction, PERCENT.sub("", formula))
    text = THOUSANDS.sub(lambda match: re.sub("[^0-9]", "", match[0]), text)
    text = GAPS.sub(" ", DEGREES.sub(r"^\\circ", MIXED.sub(r"\1\\frac{\2}{\3}", text)))
    return _union(text) or text


def in_base(formula: str) -> tuple[str, int] | None:
    """Digits and base of a numeral whose base is written with it; None for any other formula.

    Base ten is no base of its own: 18 in base 10 is 18.
    """
    match = BASED.fullmatch(plain_formula(formula))
    if match is None:
        return None
    written = match[2] or match[3]
    base = (
        int(written)
        if written.isdigit()
        else WORDS.index(written) + 2
        if written in WORDS
        else None
    )
    return None if base in (None, 10) else (match[1].lstrip("0"), base)


def same_in_base(one: str, other: str) -> bool | None:
    """Whether two formulas are the same numeral; None where neither has a base.

    A base belongs to the answer: 2516 in base 8 is neither 2516 nor, where that is asked for, 1358.
    """
    left, right = in_base(one), in_base(other)
    if left is None and right is None:
        return None
    return left == right


def _fraction(match: re.Match[str]) -> str:
    r"""0.1\overline{6}, which is 16 - 1 over 90, as \frac{15}{90}."""
    before, fixed, period = match[1] or "0", match[2], match[3] or match[4]
    top = int(before + fixed + period) - int(before + fixed)
    return rf"\frac{{{top}}}{{{'9' * len(period)}{'0' * len(fixed)}}}"


def _union(text: str) -> str | None:
    """Inequalities joined by "or" as a union of intervals; None for any other formula."""
    parts = OR.split(text)
    intervals = [_interval(part) for part in parts]
    if len(parts) < 2 or None in intervals:
        return None
    return r"\cup ".join(str(interval) for interval in intervals)


def _interval(part: str) -> str | None:
    """An inequality of one variable as an interval; None for any other formula."""
    text = part
    for pattern, sign in RELATIONS:
        text = pattern.sub(sign, text)
    text = re.sub(r"[\s$]", "", text)
    if match := BETWEEN.fullmatch(text):
        low, left, right, high = match.groups()
        return f"{'[' if left == '≤' else '('}{low},{high}{']' if right == '≤' else ')'}"
    turned = re.fullmatch(r"([^<>≤≥]+)([<>≤≥])([a-z])", text)
    if turned:
        text = turned[3] + turned[2].translate(TURNED) + turned[1]
    match = ALONE.fullmatch(text)
    if match is None:
        return None
    sign, side = match.groups()
    if sign in "<≤":
        return rf"(-\infty,{side}{']' if sign == '≤' else ')'}"
    return rf"{'[' if sign == '≥' else '('}{side},\infty)"
