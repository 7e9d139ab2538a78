r"""Answers that are words: an option from A to D, a label of ANLI, or any text.

Text from a new "Question:" on does not count, but for labels.
"""

import re
import unicodedata

from cory.tasks.answers.formulas import BOX, WORDS, last_box, plain_formula
from cory.tasks.answers.numbers import NEXT_QUESTION

CHOICES = "ABCD"

# what may go on after a letter; any other word makes the letter a part of a name
AFTER_LETTER = (
    "because|since|as|given|due|for|which|that|and|or|but|so|is|was|would|here|based|in|if|from|to"
    "|at|on|by|not|when|while|then|than|among|with|it"
)
LIKELY = r"(?:(?:most|very)\s+likely|likely|probably)"
NAMED = re.compile(
    # the answer is most likely (C) | Answer: C | the best choice would be option C
    rf"(?:(?i:answer|choice|option)[*_]*\s*(?:(?i:(?:is|would\s+be|must\s+be|should\s+be)\b)|:)"
    rf"|(?P<likely>(?i:{LIKELY})))"
    rf"(?:[\s:*_$]*(?i:therefore|thus|then|clearly|indeed|definitely|{LIKELY}|to\s+be|is|be|the"
    r"|answer|choice|option|letter)\b){0,5}"
    rf"[\s:*_$\"'“‘(\[]*(?:\\text[a-z]*\{{\(?)?(?P<named>[{CHOICES}])(?![\w'’-])"
    # most likely B cell lymphoma; but: most likely B because
    rf"(?(likely)(?![^\S\n]+(?!(?:{AFTER_LETTER})\b)[a-z]))"
)
LAST_LINE = re.compile(rf"(?:.*\n)?[ \t*_]*\(([{CHOICES}])\)[\s*_.]*", re.DOTALL)
# not the (A) of P(A), f(A) or P (A); that of `it's (A)`
BRACKETED = re.compile(rf"(?<![\w\])}}'’|\\])(?<!(?<!['’])\b[a-zA-Z]\s)\(([{CHOICES}])\)")
BOXED_CHOICE = re.compile(rf"\(?([{CHOICES}])(?:[).:].*)?")  # B, (B), B. Paris
ALONE = re.compile(rf"\s*([{CHOICES}])\.?\s*")


def final_choice(response: str) -> str | None:
    r"""The letter that a response chooses, one of CHOICES; None where it chooses none.

    In this order: the option in its last `\boxed{...}`; the one in brackets that is its last line;
    the last one that it calls its answer, as `the answer is B`, `Answer: (B)` or `most likely B`;
    the last one in brackets, `(B)`, which may be one that it only discusses. A response of one
    letter is that option.
    """
    text = response.partition(NEXT_QUESTION)[0]
    boxed = BOXED_CHOICE.fullmatch(plain_formula(last_box(text) or ""))
    if match := boxed or ALONE.fullmatch(text) or LAST_LINE.fullmatch(text):
        return match[1]
    chosen = [match["named"] for match in NAMED.finditer(text)] or BRACKETED.findall(text)
    return chosen[-1] if chosen else None


ENTAILMENT, NEUTRAL, CONTRADICTION = LABELS = ("entailment", "neutral", "contradiction")

LABEL_BOX = re.compile(r"\\boxed\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
FORM = "(?<![a-z])(?:entail|neutral|contradict)[a-z]*"  # entails, neutrality, contradictory
LABEL = re.compile(FORM)
BETWEEN = r"(?:[\s*'\"]*(?:[,/|]|(?:,\s*)?\b(?:or|and|nor)\b)[\s*'\"]*(?:an?\s)?)"
LIST = re.compile(f"{FORM}(?:{BETWEEN}{FORM})+")
CLAUSE = re.compile(
    r"[.,;:!?()\n]|\b(?:and|because|but|hence|making|so|that|therefore|thus|which|while)\b"
)
REACH = 100  # characters before a label searched for a denial: long clauses would take minutes
# a denial with at most four words between it and the label, in the same clause
DENIAL = re.compile(
    r"(?:\b(?:not|no|non|nor|never|neither|without|cannot|fails? to|instead of|rather than)"
    r"|n['’]t)\b"
    r"[\s\-*'\"]*(?:[^\s]+\s+){0,4}[\s*'\"]*$"
)


def final_label(response: str) -> str | None:
    r"""One of LABELS; None where the response has none, or a box several.

    The label in its last `\boxed{...}`, if it has a box; else the last label that the text
    asserts. Denied labels (`not an entailment`, `does not contradict it`) and lists of labels to
    choose from (`entailment, neutral or contradiction`) do not count.
    """
    text = response.lower()
    boxes = LABEL_BOX.findall(text)
    candidates = asserted(boxes[-1] if boxes else text)
    if boxes and len(set(candidates)) > 1:
        return None
    return candidates[-1] if candidates else None


def asserted(text: str) -> list[str]:
    """The labels in a text, without denied ones and lists to choose from."""
    text = LIST.sub(lambda match: match[0] if len(set(labels(match[0]))) == 1 else " ", text)
    return [
        label_of(match[0])
        for clause in CLAUSE.split(text)
        for match in LABEL.finditer(clause)
        if not DENIAL.search(clause[max(0, match.start() - REACH) : match.start()])
    ]


def labels(text: str) -> list[str]:
    """All labels in a text."""
    return [label_of(word) for word in LABEL.findall(text)]


def label_of(word: str) -> str:
    """The label that a word is a form of: `entailment` for `entails`."""
    return next(label for label in LABELS if label[:6] == word[:6])


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
