r"""The option, A to D, that a response chooses.

In this order: the option in its last `\boxed{...}`; the one in brackets that is its last line; the
last one that it calls its answer, as `the answer is B`, `Answer: (B)` or `most likely B`; the last
one in brackets, `(B)`, which may be one that it only discusses. A response of one letter is that
option. Text from a new "Question:" on does not count.
"""

import re

from cory.tasks.answers.answers import NEXT_QUESTION
from cory.tasks.answers.formulas import last_box, plain_formula

CHOICES = "ABCD"

# what may go on after a letter; any other word makes the letter a part of a name
AFTER = (
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
    rf"(?(likely)(?![^\S\n]+(?!(?:{AFTER})\b)[a-z]))"
)
LAST_LINE = re.compile(rf"(?:.*\n)?[ \t*_]*\(([{CHOICES}])\)[\s*_.]*", re.DOTALL)
# not the (A) of P(A), f(A) or P (A); that of `it's (A)`
BRACKETED = re.compile(rf"(?<![\w\])}}'’|\\])(?<!(?<!['’])\b[a-zA-Z]\s)\(([{CHOICES}])\)")
BOXED = re.compile(rf"\(?([{CHOICES}])(?:[).:].*)?")  # B, (B), B. Paris
ALONE = re.compile(rf"\s*([{CHOICES}])\.?\s*")


def final_choice(response: str) -> str | None:
    """The letter that a response chooses, one of CHOICES; None where it chooses none."""
    text = response.partition(NEXT_QUESTION)[0]
    boxed = BOXED.fullmatch(plain_formula(last_box(text) or ""))
    if match := boxed or ALONE.fullmatch(text) or LAST_LINE.fullmatch(text):
        return match[1]
    chosen = [match["named"] for match in NAMED.finditer(text)] or BRACKETED.findall(text)
    return chosen[-1] if chosen else None
