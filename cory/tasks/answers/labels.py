r"""The relation between premise and hypothesis that a response gives as its answer.

The label in its last `\boxed{...}`, if it has a box; else the last label that the text asserts.
Denied labels (`not an entailment`, `does not contradict it`) and lists of labels to choose from
(`entailment, neutral or contradiction`) do not count.
"""

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
REACH = 100  # characters before a label searched for a denial: long clauses would take minutes
# a denial with at most four words between it and the label, in the same clause
DENIAL = re.compile(
    r"(?:\b(?:not|no|non|nor|never|neither|without|cannot|fails? to|instead of|rather than)"
    r"|n['’]t)\b"
    r"[\s\-*'\"]*(?:[^\s]+\s+){0,4}[\s*'\"]*$"
)


def final_label(response: str) -> str | None:
    """One of LABELS; None where the response has none, or a box several."""
    text = response.lower()
    boxes = BOX.findall(text)
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
