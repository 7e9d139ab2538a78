r"""Reads answers from texts: numbers, formulas, labels, multiple choice, words; and compares them.

The answer is the content of the last `\boxed{...}` or `\fbox{...}` of a text. A box that is never
closed, since the text was cut off, has no content; earlier boxes do not replace it. The number of a
response is its last one, with or without currency, percent, units, punctuation; where the text
marks its answer, as `\boxed{18}` or `#### 18`, only the last mark is read. Numbers in words do not
count. Text from a new "Question:" on does not count, but for labels, and for numbers as
`task.next_question` says.

math-verify, which compares formulas, knows neither percent nor mixed numbers as 2 1/2, no `1\,000`
and no degree sign: these are rewritten for it. It leaves out the base of 2516_8.
"""

import re
import unicodedata
from decimal import Decimal
from fractions import Fraction

from cory.config import IGNORED, NO_ANSWER

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


CHOICES = "ABCD"

# The answer is most likely (C) | Answer: C | the best choice would be option C
NAMED = re.compile(
    r"(?i:answer|choice|option)[*_]*\s*(?:(?i:(?:is|would\s+be|must\s+be)\b)|:)"
    r"(?:[\s:*_$]*(?i:therefore|clearly|(?:most\s+)?likely|probably|the|answer|choice|option)\b)*"
    rf"[\s:*_$\"'“‘(\[]*(?:\\text[a-z]*\{{\(?)?([{CHOICES}])(?![\w'’-])"
)
LAST_LINE = re.compile(rf"(?:.*\n)?[ \t*_]*\(([{CHOICES}])\)[\s*_.]*", re.DOTALL)
BRACKETED = re.compile(rf"(?<![\w\])}}'’|\\])\(([{CHOICES}])\)")  # not the (A) of P(A)
BOXED_CHOICE = re.compile(rf"\(?([{CHOICES}])(?:[).:].*)?")  # B, (B), B. Paris
ALONE = re.compile(rf"\s*([{CHOICES}])\.?\s*")


def final_choice(response: str) -> str | None:
    r"""The letter that a response chooses, one of CHOICES; None where it chooses none.

    In this order: the option in its last `\boxed{...}`; the one in brackets that is its last line;
    the last one that it calls its answer, as `the answer is B` or `Answer: (B)`; the last one in
    brackets, `(B)`, which may be one that it only discusses. A response of one letter is that
    option.
    """
    text = response.partition(NEXT_QUESTION)[0]
    boxed = BOXED_CHOICE.fullmatch(plain_formula(last_box(text) or ""))
    if match := boxed or ALONE.fullmatch(text) or LAST_LINE.fullmatch(text):
        return match[1]
    chosen = NAMED.findall(text) or BRACKETED.findall(text)
    return chosen[-1] if chosen else None


LABELS = ("entailment", "neutral", "contradiction")
# entails, neutrality, contradictory
LABEL = re.compile("(?<![a-z])(entail|neutral|contradict)")


def final_label(response: str) -> str | None:
    r"""One of LABELS; None where the response has none, or its box several.

    The label in its last `\boxed{...}`, if it has a box; else the last label that it names, be it
    denied or not.
    """
    text = response.lower()
    boxed = BOX.search(text) is not None
    named = LABEL.findall((last_box(text) or "") if boxed else text)
    if not named or (boxed and len(set(named)) > 1):
        return None
    return next(label for label in LABELS if label.startswith(named[-1]))


MARK = re.compile(r"(?:####|\banswer\b(?:[ \t*_]*:|[ \t]+is\b:?))(?P<answer>.*)", re.IGNORECASE)
AROUND = " .,;:!?*_\"'`“”‘’()[]{}"  # punctuation and layout, which an answer may stand in


def final_text(response: str) -> str | None:
    r"""The answer in a response, in its plain form; None where there is none.

    It is the content of its last `\boxed{...}`, else the rest of the line after its last `####`,
    `Answer:` or `answer is`; where nothing is marked, its last line. A box that is never closed,
    since the text was cut off, has no answer.
    """
    text = response.partition(NEXT_QUESTION)[0]
    if BOX.search(text):
        candidates = [last_box(text) or ""]
    else:
        marked = [match["answer"] for match in MARK.finditer(text)]
        candidates = [*marked[-1:], *text.strip().splitlines()[-1:]]
    return next(filter(None, map(plain_text, candidates)), None)


def plain_text(text: str) -> str:
    r"""Small letters, single spaces, no punctuation around; `\text{Paris}` is `paris`."""
    words = unicodedata.normalize("NFKC", WORDS.sub(r"\1", text)).casefold()
    return " ".join(words.split()).strip(AROUND)
