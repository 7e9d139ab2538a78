r"""Answers written in LaTeX: reads them from a response, and brings them into a plain form.

The answer is the content of the last `\boxed{...}` or `\fbox{...}` of a text. A box that is never
closed, since the text was cut off, has no content; earlier boxes do not replace it.

math-verify, which compares formulas, knows neither percent nor mixed numbers as 2 1/2, no `1\,000`
and no degree sign: these are rewritten for it. It leaves out the base of 2516_8.
"""

import re

BOX = re.compile(r"\\(?:boxed|fbox)(?![a-zA-Z])\s*")
ESCAPED = re.compile(r"\\.", re.DOTALL)  # \{ and \} do not group
PERCENT = re.compile(r"\\?%")
WORDS = re.compile(r"\\(?:text|textbf|textit|textrm|mbox|mathrm|mathbf)\s*\{([^{}]*)\}")
LOOKS = re.compile(r"\\(?:left|right|displaystyle)(?![a-zA-Z])|\\[!,;:]|\\?\$")
SPACES = re.compile(r"\\ |~|\\q?quad(?![a-zA-Z])|\s+")
NEEDLESS = re.compile(r"(?<![0-9]) +| +(?![0-9])")  # spaces, but for the one of 2 1/2
MIXED = re.compile(r"\b([0-9]+)(?: |\\ )([0-9]+)/([0-9]+)\b")
THOUSANDS = re.compile(r"(?<=[0-9])(?:\\,|\{,\}|,\\!)(?=[0-9]{3}(?![0-9]))")
DEGREES = re.compile(r"\s*(?:°|\\degree(?![a-zA-Z]))")


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


def calculable(formula: str) -> str:
    """The formula for math-verify. Where a question asks for percent, 12 means 12 %."""
    text = THOUSANDS.sub("", PERCENT.sub("", formula.strip()))
    return DEGREES.sub(r"^\\circ", MIXED.sub(r"\1\\frac{\2}{\3}", text))
