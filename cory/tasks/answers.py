r"""Reads answers from texts: numbers, formulas, labels, multiple choice, words; and compares them.

An answer in a box is the content of the last one (formulas.py). The number of a response is its
last one, with or without currency, percent, units, punctuation; where the text marks its answer, as
`\boxed{18}` or `#### 18`, only the last mark is read. Numbers in words do not count. Text from a
new "Question:" on does not count, but for labels.
"""

import re
import unicodedata
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial

from cory import distributed
from cory.config import PromptsConfig
from cory.episode import Episode
from cory.tasks import Form
from cory.tasks.formulas import BOX, WORDS, final_formula, formula_in_data, last_box, plain_formula

NEXT_QUESTION = "Question:"

CURRENCY = "[$€£¥₹]"
# a comma before each three digits; 3,4,5 are three numbers; 1e5 has a power of ten
NUMERAL = (
    r"(?:(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|(?<![\w.])\.[0-9]+)"
    r"(?:[eE][+-]?[0-9]{1,3}(?!\w))?"
)
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
    (re.compile(r"(?<=[0-9])\s*\u00d7\s*10\^(?:\{(-?[0-9]+)\}|(-?[0-9]+))"), r"e\1\2"),
    (re.compile(r"(?<=[0-9])(?=\\[dt]?frac)"), " "),
    (FRACTION, r"\1\2/\3\4"),
    (re.compile(r"\{,\}|(?<=[0-9])(?:\\,|,\\!)(?=[0-9])"), ","),
    (re.compile("(?<=[0-9])[\u00a0\u2009\u202f](?=[0-9]{3}(?![0-9]))"), ","),  # narrow spaces
    (re.compile(r"\\!|\\(?=\$)"), ""),
]


def final_number(response: str) -> Fraction | None:
    """The exact value of the number in a response: 0.50 is 1/2. None where there is none."""
    text = plain_number(response.partition(NEXT_QUESTION)[0])
    marked = last_box(text) or "".join(HASHED.findall(text)[-1:])
    for part in (marked, text):
        values = [value for match in NUMBER.finditer(part) if (value := _value(match)) is not None]
        if values:
            return values[-1]
    return None


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
    r"(?i:answer|choice|option)[*_]*\s*(?:(?i:(?:is|(?:would|must|should|has\s+to)\s+be)\b)|[:=])"
    r"(?:[\s:*_$]*(?i:therefore|clearly|(?:most\s+)?likely|probably|the|answer|choice|option)\b)*"
    rf"[\s:*_$\"'“‘(\[\\]*(?:\\text[a-z]*\{{\(?)?([{CHOICES}])(?![\w'’-])"
)
LAST_LINE = re.compile(rf"(?:.*\n)?[ \t*_]*\(([{CHOICES}])\)[\s*_.]*", re.DOTALL)
BRACKETED = re.compile(rf"(?<![\w\])}}'’|\\])\(([{CHOICES}])\)")  # not the (A) of P(A)
BOXED_CHOICE = re.compile(rf"\(?([{CHOICES}])(?:[).:].*)?")  # B, (B), B. Paris
ALONE = re.compile(rf"\s*([{CHOICES}])\.?\s*")
OPTION = re.compile(rf"\s*([{CHOICES}])[).:][ \t]+\S.*\s*")  # B. Paris


def final_choice(response: str) -> str | None:
    r"""The letter that a response chooses, one of CHOICES; None where it chooses none.

    In this order: the option in its last `\boxed{...}`; the one in brackets that is its last line;
    the last one that it calls its answer, as `the answer is B` or `Answer: (B)`; the last one in
    brackets, `(B)`, which may be one that it only discusses. A response of one letter is that
    option, and so is one of a single line that begins with it, `B. Paris`.
    """
    text = response.partition(NEXT_QUESTION)[0]
    boxed = BOXED_CHOICE.fullmatch(plain_formula(last_box(text) or ""))
    if match := boxed or ALONE.fullmatch(text) or LAST_LINE.fullmatch(text):
        return match[1]
    if chosen := NAMED.findall(text) or BRACKETED.findall(text):
        return str(chosen[-1])
    match = OPTION.fullmatch(text)
    return match[1] if match else None


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


MARK = re.compile(r"(?:####|\banswer\b(?:[ \t*_]*:|[ \t]+is\b:?))(.*)", re.IGNORECASE)
TAGGED = re.compile(r"(?s).*<answer>(.*?)</answer>")  # the last one, also of several lines
AROUND = " .,;:!?*_\"'`“”‘’()[]{}"  # punctuation and layout, which an answer may stand in


def final_text(response: str) -> str | None:
    r"""The answer in a response, in its plain form; None where there is none.

    It is the content of its last `\boxed{...}` or `<answer>...</answer>`, else the rest of the line
    after its last `####`, `Answer:` or `answer is`; where nothing is marked, its last line. A box
    that is never closed, since the text was cut off, has no answer.
    """
    text = response.partition(NEXT_QUESTION)[0]
    if BOX.search(text):
        candidates = [last_box(text) or ""]
    elif found := TAGGED.match(text):
        candidates = [found[1]]
    else:
        candidates = [*MARK.findall(text)[-1:], *text.strip().splitlines()[-1:]]
    return next(filter(None, map(plain_text, candidates)), None)


def plain_text(text: str) -> str:
    r"""Small letters, single spaces, no punctuation around; `\text{Paris}` is `paris`."""
    words = unicodedata.normalize("NFKC", WORDS.sub(r"\1", text)).casefold()
    return " ".join(words.split()).strip(AROUND)


@dataclass(frozen=True)
class AnswerKind:
    """Reads the answers of one kind from responses and from data."""

    read: Callable[[str], Hashable | None]  # response -> its answer; None: none can be read
    # value in the data, as text -> a text from which `read` reads it; None: it is no such answer
    gold: Callable[[str], str | None]
    wanted: str  # what a value in the data must be, for refusals


def answer_kind(config: PromptsConfig) -> AnswerKind:
    """The kind of answers of a task, by `task.answers`."""
    if config.answers == "number":
        return AnswerKind(final_number, number_in_data, "a number, alone or after ####")
    if config.answers == "choice":
        return AnswerKind(final_choice, partial(one_of, CHOICES), "a letter from A to D, or 0 to 3")
    if config.answers == "label":
        return AnswerKind(
            final_label, partial(one_of, LABELS), f"0, 1, 2 or one of {', '.join(LABELS)}"
        )
    if config.answers == "formula":
        formula = partial(final_formula, seconds=config.seconds)
        return AnswerKind(formula, formula_in_data, "a formula, alone or in a closed \\boxed{...}")
    return AnswerKind(
        final_text, lambda text: text if final_text(text) else None, "a text with letters or digits"
    )


def number_in_data(text: str) -> str | None:
    """A number, or the one at the end of a worked solution."""
    number = text.rpartition("####")[2].strip()
    match = NUMBER.fullmatch(plain_number(number))
    return number if match and _value(match) is not None else None


def one_of(names: Sequence[str], text: str) -> str | None:
    """The name, of these, that a text is; or the number of, counted from 0, as 1 or 1.0."""
    numbers = {str(number): name for number, name in enumerate(names)}
    return text if text in [*names] else numbers.get(text.removesuffix(".0"))


def judged(form: Form, responses: Sequence[tuple[str, str]]) -> list[bool]:
    """Whether each response gives its prompt's answer, as the first process finds it.

    Where formulas are compared, time may run out in one process and not in another; what follows
    from a verdict would then differ between them. Every process calls this.

    responses: (response, right answer)
    """
    return distributed.first_works(lambda: [form.is_right(*pair) for pair in responses])


def judge_rest(form: Form, episodes: Sequence[Episode]) -> None:
    """Fill `turn.right` where the reward did not; of prompts with answers, and turns not absent."""
    rest = [
        (str(episode.prompt.answer), turn)
        for episode in episodes
        for turn in episode.turns
        if episode.prompt.answer is not None and turn.right is None and not turn.absent
    ]
    verdicts = judged(form, [(turn.response, answer) for answer, turn in rest])
    for (_, turn), right in zip(rest, verdicts, strict=True):
        turn.right = right
