r"""Answers that are words: an option from A to D, a label of ANLI, or any text.

Text from a new "Question:" on does not count, but for labels.
"""

import re
import unicodedata

from cory.tasks.answers.formulas import BOX, WORDS, last_box, plain_formula
from cory.tasks.answers.numbers import NEXT_QUESTION

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
