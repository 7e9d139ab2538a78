r"""Answers written in LaTeX: reads them from a response, and brings them into a plain form.

The answer is the content of the last `\boxed{...}` or `\fbox{...}` of a text. A box that is never
closed, since the text was cut off, has no content; earlier boxes do not replace it.

math-verify, which compares them, knows neither percent nor mixed numbers as 2 1/2, no repeating
decimals as `0.\overline{3}`, no `1\,000` and no degree sign; it takes the base of `2516_8` for an
index, which it leaves out. So formulas are rewritten for it, and numerals of a base compared here.
"""

import re

from cory.tasks.answers.numbers import REPEATING, repeating

BOX = re.compile(r"\\(?:boxed|fbox)(?![a-zA-Z])\s*")
ESCAPED = re.compile(r"\\.", re.DOTALL)  # \{ and \} do not group
PERCENT = re.compile(r"\\?%")
WORDS = re.compile(r"\\(?:text|textbf|textit|textrm|mbox|mathrm|mathbf)\s*\{([^{}]*)\}")
LOOKS = re.compile(r"\\(?:left|right|displaystyle)(?![a-zA-Z])|\\[!,;:]|\\?\$")
SPACES = re.compile(r"\\ |~|\\q?quad(?![a-zA-Z])|\s+")
NEEDLESS = re.compile(r"(?<![0-9]) +| +(?![0-9])")  # spaces, but for the one of 2 1/2


def last_box(text: str) -> str | None:
    """Content of the last box, with single spaces; None: no box, an open one or an empty one."""
    boxes = list(BOX.finditer(text))
    if not boxes:
        return None
    content = group(text[boxes[-1].end() :])
    return None if content is None else " ".join(content.split()) or None


def group(text: str) -> str | None:
    r"""The group in braces at the start of a text; without braces its first word: `\boxed 5.`

    None where the braces are never closed.
    """
    if not text.startswith("{"):
        return re.split(r"[\s$]", text, maxsplit=1)[0].rstrip(".,;:")
    depth = 0
    for place, sign in enumerate(ESCAPED.sub("  ", text)):
        depth += (sign == "{") - (sign == "}")
        if depth == 0:
            return text[1:place]
    return None


def plain_formula(formula: str) -> str:
    """The formula without layout commands and the like; equal plain forms are equal formulas."""
    text = WORDS.sub(r"\1", PERCENT.sub("", formula))
    text = re.sub(r"\\[dt]frac(?![a-zA-Z])", r"\\frac", LOOKS.sub("", text))
    return NEEDLESS.sub("", SPACES.sub(" ", text)).strip().rstrip(".")


MIXED = re.compile(r"\b([0-9]+)(?: |\\ )([0-9]+)/([0-9]+)\b")
THOUSANDS = re.compile(r"(?<![0-9.])[0-9]{1,3}(?:(?:\\,|\{,\}|,\\!)[0-9]{3})+(?![0-9])")
DEGREES = re.compile(r"\s*(?:°|\\degree(?![a-zA-Z]))")
GAPS = re.compile(r"~|(?<!\\)\\[,;: ]")  # \\ ends a row of a matrix
NUMERALS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
BASES = {word: number for number, word in enumerate(NUMERALS, 2)}
BASED = re.compile(
    r"(?:[a-zA-Z]=)?\(?([0-9][0-9A-Z]*|[A-Z]+[0-9][0-9A-Z]*)\)?"
    r"(?:_\{?\(?(?:base ?)?([0-9]{1,2}|[a-z]+)\)?\}?| ?\(?base ?([0-9]{1,2}|[a-z]+)\)?)"
)
SET = re.compile(r"\\\{\s*[a-z]\s*(?::|\\mid(?![a-zA-Z])|\|)\s*(.*)\\\}")  # \{x : x > 2\}


def calculable(formula: str) -> str:
    """The formula for math-verify. Where a question asks for percent, 12 means 12 %."""
    formula = SET.sub(r"\1", formula.strip())
    text = re.sub(REPEATING, _fraction, PERCENT.sub("", formula))
    text = THOUSANDS.sub(lambda match: re.sub("[^0-9]", "", match[0]), text)
    return GAPS.sub(" ", DEGREES.sub(r"^\\circ", MIXED.sub(r"\1\\frac{\2}{\3}", text)))


def in_base(formula: str) -> tuple[str, int] | None:
    """Digits and base of a numeral whose base is written with it; None for any other formula.

    Base ten is no base of its own: 18 in base 10 is 18.
    """
    match = BASED.fullmatch(plain_formula(formula))
    if match is None:
        return None
    written = match[2] or match[3]
    base = int(written) if written.isdigit() else BASES.get(written)
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
    top, bottom = repeating(match)
    return rf"\frac{{{top}}}{{{bottom}}}"
