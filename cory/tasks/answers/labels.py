r"""The relation between premise and hypothesis that a response names as its answer.

What its last `\boxed{...}` names, and nothing else where there is one. Without a box the last
label that the text asserts: a denied label (`not an entailment`, `does not contradict it`) and a
list of labels to choose from (`entailment, neutral or contradiction`) are passed over.
"""

from __future__ import annotations

import re

ENTAILMENT, NEUTRAL, CONTRADICTION = LABELS = ("entailment", "neutral", "contradiction")

BOX = re.compile(r"\\boxed\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
WORD = "(?<![a-z])(?:entail|neutral|contradict)[a-z]*"  # entails, neutrality, contradictory
LABEL = re.compile(WORD)
BETWEEN = r"(?:[\s*'\"]*(?:[,/|]|(?:,\s*)?\b(?:or|and|nor)\b)[\s*'\"]*(?:an?\s)?)"
LIST = re.compile(f"{WORD}(?:{BETWEEN}{WORD})+")
CLAUSE = re.compile(
    r"[.,;:!?()\n]|\b(?:and|because|but|hence|making|so|that|therefore|thus|which|while)\b"
)
# reaches a label with at most four words between, in the same clause
REACH = 100  # characters: a long clause of a collapsed model would take minutes
DENIAL = re.compile(
    r"(?:\b(?:not|no|non|nor|never|neither|without|cannot|fails? to|instead of|rather than)"
    r"|n['’]t)\b"
    r"[\s\-*'\"]*(?:[^\s]+\s+){0,4}[\s*'\"]*$"
)


def final_label(response: str) -> str | None:
    """One of LABELS, or None when the response names none, or a box several."""
    text = response.lower()
    boxes = BOX.findall(text)
    found = asserted(boxes[-1] if boxes else text)
    if boxes and len(set(found)) > 1:
        return None
    return found[-1] if found else None


def asserted(text: str) -> list[str]:
    """The labels that a text names, without denied ones and lists to choose from."""
    text = LIST.sub(lambda found: found[0] if len(set(labels(found[0]))) == 1 else " ", text)
    return [
        label_of(found[0])
        for clause in CLAUSE.split(text)
        for found in LABEL.finditer(clause)
        if not DENIAL.search(clause[max(0, found.start() - REACH) : found.start()])
    ]


def labels(text: str) -> list[str]:
    """All labels that a text names."""
    return [label_of(word) for word in LABEL.findall(text)]


def label_of(word: str) -> str:
    """`entailment` of `entails`."""
    return next(label for label in LABELS if label[:6] == word[:6])
