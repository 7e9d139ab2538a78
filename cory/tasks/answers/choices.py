r"""The option, A to D, that a response chooses.

The option in its last `\boxed{...}`, if there is one; else the last option in a form like `(B)`,
`the answer is B`, `Answer: B`. A response of one letter is that option.
"""

import re

from cory.tasks.answers.formulas import last_box, plain_formula

CHOICES = "ABCD"

NAMED = re.compile(
    rf"\((?P<marked>[{CHOICES}])\)"
    rf"|(?i:answer|choice|option)\s*(?:(?i:is)\b|:)[\s:*$]*(?P<named>[{CHOICES}])(?![\w'’])"
)
BOXED = re.compile(rf"\(?([{CHOICES}])(?:[).:].*)?")  # B, (B), B. Paris
ALONE = re.compile(rf"\s*([{CHOICES}])\.?\s*")


def final_choice(response: str) -> str | None:
    """The letter that a response chooses, one of CHOICES; None where it chooses none."""
    boxed = BOXED.fullmatch(plain_formula(last_box(response) or ""))
    if match := boxed or ALONE.fullmatch(response):
        return match[1]
    named = list(NAMED.finditer(response))
    return (named[-1]["marked"] or named[-1]["named"]) if named else None
