r"""Answers written in LaTeX: found in a response, and spelt alike where only their looks differ.

The answer is what the last `\boxed{...}` or `\fbox{...}` of a text holds. A box that is never
closed, as one that was cut off, holds nothing; nor does an earlier one count in its place.
"""

from __future__ import annotations

import re

BOX = re.compile(r"\\(?:boxed|fbox)(?![a-zA-Z])\s*")
ESCAPED = re.compile(r"\\.", re.DOTALL)  # \{ and \} are signs, not groups
PERCENT = re.compile(r"\\?%")
WORDS = re.compile(r"\\(?:text|textbf|textit|textrm|mbox|mathrm|mathbf)\s*\{([^{}]*)\}")
LOOKS = re.compile(r"\\(?:left|right|displaystyle)(?![a-zA-Z])|\\[!,;:]|\\?\$")
SPACES = re.compile(r"\\ |~|\\q?quad(?![a-zA-Z])|\s+")
MIXED = re.compile(r"\b([0-9]+)(?: |\\ )([0-9]+)/([0-9]+)\b")
NEEDLESS = re.compile(r"(?<![0-9]) +| +(?![0-9])")  # any but the one of 2 1/2


def last_box(text: str) -> str | None:
    """What the last box holds, white space made single; None: no box, an open or an empty one."""
    boxes = list(BOX.finditer(text))
    if not boxes:
        return None
    inside = group(text[boxes[-1].end() :])
    return None if inside is None else " ".join(inside.split()) or None


def group(text: str) -> str | None:
    r"""The group in braces that a text begins with; without braces its first word: `\boxed 5.`"""
    if not text.startswith("{"):
        return re.split(r"[\s$]", text, maxsplit=1)[0].rstrip(".,;:")
    depth = 0
    for place, sign in enumerate(ESCAPED.sub("  ", text)):
        depth += (sign == "{") - (sign == "}")
        if depth == 0:
            return text[1:place]
    return None


def plain_formula(formula: str) -> str:
    """The formula without what only changes its looks; those of one plain form are equal."""
    text = WORDS.sub(r"\1", PERCENT.sub("", formula))
    text = re.sub(r"\\[dt]frac(?![a-zA-Z])", r"\\frac", LOOKS.sub("", text))
    return NEEDLESS.sub("", SPACES.sub(" ", text)).strip().rstrip(".")


def calculable(formula: str) -> str:
    """The formula for a library that knows neither percent nor mixed numbers as 2 1/2.

    Where a question asks for percent, 12 means 12 %.
    """
    return MIXED.sub(r"\1\\frac{\2}{\3}", PERCENT.sub("", formula))
