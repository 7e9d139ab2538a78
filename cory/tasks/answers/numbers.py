r"""The number that a response gives as its answer.

The last number of the text, with or without currency, percent, units, punctuation. Where the text
marks its answer, as `#### 18` or `\boxed{18}`, only the last mark is read. Numbers in words do not
count. What text from a new "Question:" on counts for is a choice: the paper is silent.

Before that, numbers in LaTeX or with typographic characters become plain text: `\frac12` 1/2,
`0.1\overline{6}` 15/90, `2516_8` 1358; of `15\text{ cm}^2` the power of the unit is left out.
"""

import re
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from cory.config import IGNORED, NO_ANSWER

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
    # 10^2, and 1.8 x 10^1; plain_number writes times signs as \u00d7
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


TEXT = r"\\(?:text|textbf|textit|textrm|mbox|mathrm|mathbf)\s*\{([^{}]*)\}"
POWER = r"\^(?:-?[0-9]+|\{\s*-?[0-9]+\s*\})"
ARGUMENT = r"\s*(?:\{([^{}]*)\}|([0-9]))"  # \frac12 has two arguments of one digit
REPEATING = r"(?<![0-9.])([0-9]*)\.([0-9]*)\\(?:overline|bar)\s*(?:\{([0-9]+)\}|([0-9]))"
MOST_CONVERTED = 300  # digits; int() refuses thousands


def plain_number(text: str) -> str:
    """The text with its numbers as NUMBER knows them."""
    for pattern, replacement in REPLACEMENTS:
        text = pattern.sub(replacement, text)
    return text


def _text(match: re.Match[str]) -> str:
    """The content of \\text{...}; the power behind it only if it is a number's."""
    content, power = match[1], match[2] or ""
    return content + (power if content[-1:].isdigit() else "")


def _fraction(match: re.Match[str]) -> str:
    r"""\frac{3}{-4} as -3/4."""
    top, bottom = (match[1] or match[2] or "").strip(), (match[3] or match[4] or "").strip()
    if bottom.startswith("-"):
        top, bottom = (top[1:] if top.startswith("-") else f"-{top}"), bottom[1:]
    return f"{top}/{bottom}"


def repeating(match: re.Match[str]) -> tuple[int, int]:
    r"""The fraction that a REPEATING is: of 0.1\overline{6} 16 - 1 over 90."""
    before, fixed, period = match[1] or "0", match[2], match[3] or match[4]
    top = int(before + fixed + period) - int(before + fixed)
    return top, (10 ** len(period) - 1) * 10 ** len(fixed)


def _repeating(match: re.Match[str]) -> str:
    return match[0] if len(match[0]) > MOST_CONVERTED else "{}/{}".format(*repeating(match))


def _in_base(match: re.Match[str]) -> str:
    """2516_8 as 1358; left as it is where the base has no such digits."""
    digits, base = match[1], int(match[2] or match[3])
    if len(digits) > MOST_CONVERTED or not 2 <= base <= 36 or int(max(digits)) >= base:
        return match[0]
    return str(int(digits, base))


def _spelt(match: re.Match[str]) -> str:
    """A one-character fraction as ` 1/2`, which after a digit is a mixed number."""
    return " " + unicodedata.normalize("NFKC", match[0]).replace("\u2044", "/")


Replacement = str | Callable[[re.Match[str]], str]
REPLACEMENTS: list[tuple[re.Pattern[str], Replacement]] = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        ("[\u2212\u2013]", "-"),
        (rf"{TEXT}({POWER})?", _text),
        (rf"(?<=[a-zA-Z\u00b5]){POWER}", ""),  # cm^2
        (r"(?<![a-zA-Z0-9])([a-zA-Z])_(?:[0-9]+|\{[0-9]+\})", r"\1"),  # x_1
        (r"(?<![0-9.])([0-9]+)_(?:([0-9]{1,2})|\{([0-9]{1,2})\})(?![0-9.])", _in_base),
        (REPEATING, _repeating),
        (r"(?<=[0-9])(?=\\[dt]?frac)", " "),
        (rf"\\[dt]?frac{ARGUMENT}{ARGUMENT}", _fraction),
        (r"\\(?:times|cdot)(?![a-zA-Z])", "\u00d7"),
        (r"\{,\}|(?<=[0-9])\\,(?=[0-9])", ","),
        (r"\\!|\\(?=\$)", ""),
        ("[\u00bc-\u00be\u2150-\u215e]", _spelt),
    )
]
