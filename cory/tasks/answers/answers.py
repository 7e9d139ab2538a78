r"""The number that a response gives as its answer.

The last number of the text, with or without currency, percent, units, punctuation. Where the text
marks its answer, as `#### 18` or `\boxed{18}`, only the last mark is read. Numbers in words do not
count. What text from a new "Question:" on counts for is a choice: the paper is silent.
"""

import re
from decimal import Decimal
from fractions import Fraction

from cory.config import IGNORED, NO_ANSWER
from cory.tasks.answers.plain_numbers import plain_number

NEXT_QUESTION = "Question:"

CURRENCY = "[$€£¥₹]"
# a comma, or a thin space, before each three digits; 3,4,5 are three numbers
NUMERAL = (
    "(?:[0-9]{1,3}(?:[,\u2009\u202f][0-9]{3})+(?![0-9])|[0-9]+)(?:\\.[0-9]+)?|(?<![\\w.])\\.[0-9]+"
)
EXPONENT = r"\s*\^\s*(?:(?P<{0}>-?[0-9]+)|\{{\s*(?P<{0}_braced>-?[0-9]+)\s*\}})"
NUMBER = re.compile(
    # 5-3 and 5%-3% subtract; -3 and -$3 and $-3 are negative
    rf"(?P<sign>(?<![\w)\]}}%$€£¥₹-])-)?(?:(?<![0-9]){CURRENCY} ?(?P<late_sign>-)?)?"
    r"(?<![^\W_])"  # the 2 of CO2 is part of a name
    r"(?:(?P<whole>[0-9]+) (?=[0-9]+/[0-9]))?"  # the 1 of 1 1/2
    # 1.5e-3; not the e of 2e5b
    rf"(?P<top>{NUMERAL})(?:[eE](?P<e>[+-]?[0-9]+)(?!\w|\.[0-9])|/(?P<bottom>{NUMERAL}))?"
    # 10^2, and 1.8 x 10^1; plain_numbers.py writes times signs as \u00d7
    rf"(?:{EXPONENT.format('power')}|\s*[\u00d7\u00b7*x]\s*10{EXPONENT.format('ten')})?"
)
# of a numeral: to convert a million digits takes a minute and a half
LONGEST = 30_000
MOST_DIGITS = 1_000  # of a power: 9^9999999 has a million
MARK = re.compile(
    r"\\boxed\s*\{(?P<boxed>(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}"
    # `#### Step 2: add` and `#### 2. Add` are headings
    rf"|####[ \t]*(?P<hashed>-?{CURRENCY}?-?\.?[0-9](?![0-9]*[.):][ \t]+\w).*)"
)
APART = re.compile(r"(^|[=≈])\s*-(?:\s|\\[,;: ])+")  # the sign of \boxed{- 18}; in a text a dash


def final_number(response: str, next_question: str = IGNORED) -> Fraction | None:
    """The exact value of the number in a response: 0.50 is 1/2. None where there is none.

    next_question: of a response that goes on with another question: `ignored`: the text before it
        is read; `read`: all of it; `no_answer`: nothing
    """
    before, goes_on, after = response.partition(NEXT_QUESTION)
    if goes_on and next_question == NO_ANSWER:
        return None
    text = plain_number(before if next_question == IGNORED else before + goes_on + after)
    marked = [
        APART.sub(r"\1-", mark["boxed"] or "") or mark["hashed"] or ""
        for mark in MARK.finditer(text)
    ]
    for part in (*marked[-1:], text):
        values = [value for match in NUMBER.finditer(part) if (value := _value(match)) is not None]
        if values:
            return values[-1]
    return None


def is_number(text: str) -> bool:
    """Whether the text is one number and nothing else, as the answers of a data set must be."""
    match = NUMBER.fullmatch(plain_number(text))
    return match is not None and _value(match) is not None


def _value(match: re.Match[str]) -> Fraction | None:
    """The value of a NUMBER; None where its denominator is 0, or it is too long."""
    if len(match[0]) > LONGEST:
        return None
    top, bottom = _exact(match["top"]), _exact(match["bottom"] or "1")
    if bottom == 0:
        return None
    value = top / bottom
    if match["whole"] and value < 1:
        value += _exact(match["whole"])
    e = match["e"] or "0"
    power = match["power"] or match["power_braced"] or "1"
    ten = match["ten"] or match["ten_braced"] or "0"
    if any(len(exponent) > 4 for exponent in (e, power, ten)) or (value == 0 and int(power) < 0):
        return None
    digits = len(match[0]) + abs(int(e))
    if abs(int(power)) > 1 and abs(int(power)) * digits > MOST_DIGITS:
        return None
    value = (value * Fraction(10) ** int(e)) ** int(power) * Fraction(10) ** int(ten)
    return -value if match["sign"] or match["late_sign"] else value


def _exact(numeral: str) -> Fraction:
    # via Decimal: int() refuses the thousands of digits that a collapsed model may write
    return Fraction(Decimal(re.sub("[,\u2009\u202f]", "", numeral)))
