r"""Numbers as a response may write them, in LaTeX or with typographic characters, as plain text.

`\frac12` becomes 1/2, `0.1\overline{6}` 15/90, `2516_8` 1358, and of `15\text{ cm}^2` the power of
the unit is left out, which is no number of its own.
"""

import re
import unicodedata
from collections.abc import Callable

TEXT = r"\\(?:text|textbf|textit|textrm|mbox|mathrm|mathbf)\s*\{([^{}]*)\}"
POWER = r"\^(?:-?[0-9]+|\{\s*-?[0-9]+\s*\})"
ARGUMENT = r"\s*(?:\{([^{}]*)\}|([0-9]))"  # \frac12 has two arguments of one digit
REPEATING = r"(?<![0-9.])([0-9]*)\.([0-9]*)\\(?:overline|bar)\s*(?:\{([0-9]+)\}|([0-9]))"
LONGEST = 300  # digits that are converted; int() refuses thousands


def plain_number(text: str) -> str:
    """The text with its numbers as the pattern of answers.py knows them."""
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
    return match[0] if len(match[0]) > LONGEST else "{}/{}".format(*repeating(match))


def _in_base(match: re.Match[str]) -> str:
    """2516_8 as 1358; left as it is where the base has no such digits."""
    digits, base = match[1], int(match[2] or match[3])
    if len(digits) > LONGEST or not 2 <= base <= 36 or int(max(digits)) >= base:
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
