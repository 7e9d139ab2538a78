r"""Answers that are words: reads them from a response, and brings them into a plain form.

The answer is what the text marks: the content of its last `\boxed{...}`, else the rest of the line
after its last `####`, `Answer:` or `answer is`; where nothing is marked, its last line. A box that
is never closed, since the text was cut off, has no answer. Text from a new "Question:" on does not
count.
"""

import re
import unicodedata

from cory.tasks.answers.answers import NEXT_QUESTION
from cory.tasks.answers.formulas import BOX, WORDS, last_box

MARK = re.compile(r"(?:####|\banswer\b(?:[ \t*_]*:|[ \t]+is\b:?))(?P<answer>.*)", re.IGNORECASE)
AROUND = " .,;:!?*_\"'`“”‘’()[]{}"  # punctuation and layout, which an answer may stand in


def final_text(response: str) -> str | None:
    """The answer in a response, in its plain form; None where there is none."""
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
