r"""The option, A to D, that a response chooses.

What its last `\boxed{...}` names, where it names one; else the last option that the text names as
one: `(B)`, `the answer is B`, `Answer: B`. A response of one letter is that option.
"""

from __future__ import annotations

import re

from cory.tasks.answers.formulas import last_box, plain_formula

CHOICES = "ABCD"

NAMED = re.compile(
    rf"\((?P<marked>[{CHOICES}])\)"
    rf"|(?i:answer|choice|option)\s*(?:(?i:is)\b|:)[\s:*$]*(?P<said>[{CHOICES}])(?![\w'’])"
)
BOXED = re.compile(rf"\(?([{CHOICES}])(?:[).:].*)?")  # B, (B), B. Paris
ALONE = re.compile(rf"\s*([{CHOICES}])\.?\s*")


def final_choice(response: str) -> str | None:
    """One of CHOICES, or None where the response names none."""
    boxed = BOXED.fullmatch(plain_formula(last_box(response) or ""))
    if found := boxed or ALONE.fullmatch(response):
        return found[1]
    named = list(NAMED.finditer(response))
    return (named[-1]["marked"] or named[-1]["said"]) if named else None
