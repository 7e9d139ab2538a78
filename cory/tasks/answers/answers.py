r"""The number that a response gives as its answer.

The last number of the text, whatever stands around it: currency, percent, units, punctuation.
Where the text marks its answer, as `#### 18` or `\boxed{18}`, the last mark is read instead of
all of it. Words for numbers are words, and text from a new "Question:" on belongs to no answer.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from fractions import Fraction

NEXT_QUESTION = "Question:"

CURRENCY = "[$€£¥₹]"
# a comma, or a thin space, before each three digits; 3,4,5 are three numbers
NUMERAL = (
    "(?:[0-9]{1,3}(?:[,\u2009\u202f][0-9]{3})+(?![0-9])|[0-9]+)(?:\\.[0-9]+)?|(?<![\\w.])\\.[0-9]+"
)
NUMBER = re.compile(
    # 5-3 and 5%-3% subtract; -3 and -$3 and $-3 are negative
    rf"(?P<sign>(?<![\w)\]}}%$€£¥₹-])-)?(?:(?<![0-9]){CURRENCY} ?(?P<late_sign>-)?)?"
    r"(?<![^\W_])"  # the 2 of CO2 is part of a name
    r"(?:(?P<whole>[0-9]+) (?=[0-9]+/[0-9]))?"  # the 1 of 1 1/2
    rf"(?P<top>{NUMERAL})(?:/(?P<bottom>{NUMERAL}))?"
)
MARK = re.compile(
    r"\\boxed\s*\{(?P<boxed>(?:[^{}]|\{[^{}]*\})*)\}"
    # `#### Step 2: add` and `#### 2. Add` are headings
    rf"|####[ \t]*(?P<hashed>-?{CURRENCY}?-?\.?[0-9](?![0-9]*[.):][ \t]+\w).*)"
)
# LaTeX and typography, written plainly
PLAIN = [
    (re.compile("[\u2212\u2013]"), "-"),
    (re.compile("(?<=[0-9])(?=\\\\[dt]?frac)"), " "),
    (re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}"), r"\1/\2"),
    (re.compile(r"\{,\}|(?<=[0-9])\\,(?=[0-9])"), ","),
    (re.compile(r"\\[!]|\\(?=\$)"), ""),
]
VULGAR = re.compile("[\u00bc-\u00be\u2150-\u215e]")  # one character for a fraction


def final_number(response: str) -> Fraction | None:
    """The exact value of the answer, or None when there is no number."""
    text = _plain(response.partition(NEXT_QUESTION)[0])
    marked = [mark["boxed"] or mark["hashed"] or "" for mark in MARK.finditer(text)]
    for part in (*marked[-1:], text):
        values = [value for found in NUMBER.finditer(part) if (value := _value(found)) is not None]
        if values:
            return values[-1]
    return None


def is_right(response: str, answer: str) -> bool:
    """Whether the response's number has the answer's value: 0.50 is 1/2, and 18.00 is 18."""
    given = final_number(response)
    return given is not None and given == final_number(answer)


def is_number(text: str) -> bool:
    """Whether the text is one number and nothing else, as the answers of a data set must be."""
    found = NUMBER.fullmatch(_plain(text))
    return found is not None and _value(found) is not None


def _plain(text: str) -> str:
    for pattern, instead in PLAIN:
        text = pattern.sub(instead, text)
    return VULGAR.sub(_spelt, text)


def _spelt(found: re.Match[str]) -> str:
    """A fraction of one character as ` 1/2`: after a digit it makes a mixed number."""
    return " " + unicodedata.normalize("NFKC", found[0]).replace("\u2044", "/")


def _value(found: re.Match[str]) -> Fraction | None:
    top, bottom = _exact(found["top"]), _exact(found["bottom"] or "1")
    if bottom == 0:
        return None
    value = top / bottom
    if found["whole"] and value < 1:
        value += _exact(found["whole"])
    return -value if found["sign"] or found["late_sign"] else value


def _exact(numeral: str) -> Fraction:
    # by way of Decimal: int() refuses a collapsed model's thousands of digits
    return Fraction(Decimal(re.sub("[,\u2009\u202f]", "", numeral)))
