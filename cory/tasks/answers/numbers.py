r"""The number that a response gives as its answer.

The last number of the text, with or without currency, percent, units, punctuation. Where the text
marks its answer, as `\boxed{18}` or `#### 18`, only the last mark is read. Numbers in words do not
count. What text from a new "Question:" on counts for is a choice: the paper is silent.
"""

import re
from decimal import Decimal
from fractions import Fraction

from cory.config import IGNORED, NO_ANSWER
from cory.tasks.answers.formulas import WORDS, last_box

NEXT_QUESTION = "Question:"

CURRENCY = "[$€£¥₹]"
# a comma before each three digits; 3,4,5 are three numbers
NUMERAL = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|(?<![\w.])\.[0-9]+"
NUMBER = re.compile(
    # 5-3 and 5%-3% subtract; -3 and -$3 and $-3 are negative
    rf"(?P<sign>(?<![\w)\]}}%$€£¥₹-])-)?(?:(?<![0-9]){CURRENCY} ?(?P<late_sign>-)?)?"
    r"(?<![^\W_])"  # the 2 of CO2 is part of a name
    r"(?:(?P<whole>[0-9]+) (?=[0-9]+/[0-9]))?"  # the 1 of 1 1/2
    rf"(?P<top>{NUMERAL})(?:/(?P<bottom>{NUMERAL}))?"
)
# `#### Step 2: add` and `#### 2. Add` are headings
HASHED = re.compile(rf"####[ \t]*(-?{CURRENCY}?-?\.?[0-9](?![0-9]*[.):][ \t]+\w).*)")
ARGUMENT = r"\s*(?:\{\s*([^{}]*?)\s*\}|([0-9]))"  # \frac12 has two arguments of one digit
FRACTION = re.compile(rf"\\[dt]?frac{ARGUMENT}{ARGUMENT}")
# typographic signs and LaTeX, as they are typed
TYPED = [
    (re.compile("[\u2212\u2013]"), "-"),
    (WORDS, r"\1"),
    (re.compile(r"(?<=[a-zA-Z])\^(?:-?[0-9]+|\{\s*-?[0-9]+\s*\})"), ""),  # cm^2
    (re.compile(r"\\(?:times|cdot)(?![a-zA-Z])"), "\u00d7"),
    (re.compile(r"(?<=[0-9])(?=\\[dt]?frac)"), " "),
    (FRACTION, r"\1\2/\3\4"),
    (re.compile(r"\{,\}|(?<=[0-9])(?:\\,|,\\!)(?=[0-9])"), ","),
    (re.compile(r"\\!|\\(?=\$)"), ""),
]


def final_number(response: str, next_question: str = IGNORED) -> Fraction | None:
    """The exact value of the number in a response: 0.50 is 1/2. None where there is none.

    next_question: of a response that goes on with another question: `ignored`: the text before it
        is read; `read`: all of it; `no_answer`: nothing
    """
    before, goes_on, _ = response.partition(NEXT_QUESTION)
    if goes_on and next_question == NO_ANSWER:
        return None
    text = plain_number(before if next_question == IGNORED else response)
    marked = last_box(text) or "".join(HASHED.findall(text)[-1:])
    for part in (marked, text):
        values = [value for match in NUMBER.finditer(part) if (value := _value(match)) is not None]
        if values:
            return values[-1]
    return None


def is_number(text: str) -> bool:
    """Whether the text is one number and nothing else, as the answers of a data set must be."""
    match = NUMBER.fullmatch(plain_number(text))
    return match is not None and _value(match) is not None


def plain_number(text: str) -> str:
    """The text with its numbers as NUMBER knows them."""
    for pattern, replacement in TYPED:
        text = pattern.sub(replacement, text)
    return text


def _value(match: re.Match[str]) -> Fraction | None:
    """The value of a NUMBER; None where its denominator is 0."""
    top, bottom = _exact(match["top"]), _exact(match["bottom"] or "1")
    if bottom == 0:
        return None
    value = top / bottom
    if match["whole"] and value < 1:
        value += _exact(match["whole"])
    return -value if match["sign"] or match["late_sign"] else value


def _exact(numeral: str) -> Fraction:
    # via Decimal: int() refuses the thousands of digits that a collapsed model may write
    return Fraction(Decimal(numeral.replace(",", "")))
