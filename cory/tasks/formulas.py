r"""Formulas in the boxes of texts, and their equality by math-verify in a child process.

The content of a text is that of its last `\boxed{...}` or `\fbox{...}`. A box that is never closed,
since the text was cut off, has no content; earlier boxes do not replace it.

math-verify knows neither percent nor mixed numbers as 2 1/2, no `1\,000` and no degree sign: these
are rewritten for it. It leaves out the base of 2516_8. It may need hours or all memory for the
formulas of a model, and its own time limit is a signal that reaches only main threads, and none
that is busy with one large power. A process (sandbox/comparer.py) can be ended.
"""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cory import distributed

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
SENTENCE = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z]{2,}\s+[a-zA-Z]{2,}")  # two words, no commands

COMPARER = Path(__file__).parent / "sandbox" / "comparer.py"
MEMORY = 1024  # MiB of address space; the libraries take a fifth of it
ENDED_ITSELF = (-signal.SIGPROF, -signal.SIGSEGV, -signal.SIGABRT)  # out of time, or of stack
LONGEST = 500  # characters; longer formulas, of models that repeat themselves, are not compared


def last_box(text: str) -> str | None:
    """Content of the last box, with single spaces; None: no box, an open one or an empty one."""
    *before, last = BOX.split(text)
    return " ".join(group(last).split()) or None if before else None


def group(text: str) -> str:
    r"""The group in braces at the start of a text; without braces its first word: `\boxed 5.`

    Empty where the braces are never closed.
    """
    if not text.startswith("{"):
        return re.split(r"[\s$]", text, maxsplit=1)[0].rstrip(".,;:")
    depth = 0
    for place, sign in enumerate(ESCAPED.sub("  ", text)):
        depth += (sign == "{") - (sign == "}")
        if depth == 0:
            return text[1:place]
    return ""


def plain_formula(formula: str) -> str:
    """The formula without layout commands and the like; equal plain forms are equal formulas."""
    text = WORDS.sub(r"\1", PERCENT.sub("", formula))
    text = re.sub(r"\\[dt]frac(?![a-zA-Z])", r"\\frac", LOOKS.sub("", text))
    return NEEDLESS.sub("", SPACES.sub(" ", text)).strip().rstrip(".")


def calculable(formula: str) -> str:
    """The formula for math-verify. Where a question asks for percent, 12 means 12 %."""
    text = THOUSANDS.sub("", PERCENT.sub("", formula.strip()))
    return DEGREES.sub(r"^\\circ", MIXED.sub(r"\1\\frac{\2}{\3}", text))


def formula_in_data(text: str) -> str | None:
    """A formula in a box, whether or not it has one in the data; None for sentences without."""
    if not BOX.search(text) and SENTENCE.search(WORDS.sub("", text)):
        return None
    formula = last_box(text if BOX.search(text) else f"\\boxed{{{text}}}")
    return f"\\boxed{{{formula}}}" if formula and plain_formula(formula) else None


@dataclass(frozen=True, eq=False)
class Answer:
    """A formula as an answer: equal to mathematically equal ones, all with the same hash."""

    text: str
    seconds: int  # of processor time for a comparison

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Answer) and equal(self.text, other.text, self.seconds)

    def __hash__(self) -> int:
        return 0  # equal formulas may share no text that could be hashed

    def __str__(self) -> str:
        return self.text


def final_formula(response: str, seconds: int) -> Answer | None:
    """The formula in the last box of a response, to be compared in as many seconds."""
    formula = last_box(response)
    # of dots alone, which a prompt may show, nothing is left
    return Answer(formula, seconds) if formula and plain_formula(formula) else None


def equal(one: str, other: str, seconds: int) -> bool:
    """Whether the formulas are equal; those that take too long to compare are not."""
    if plain_formula(one) == plain_formula(other):
        return True
    if max(len(one), len(other)) > LONGEST:
        return False
    return compared(*sorted((calculable(one), calculable(other))), seconds)


@cache
def compared(one: str, other: str, seconds: int) -> bool:
    """What the child process says; of two that cannot be compared False, with a note."""
    child = comparer(seconds)
    assert child.stdin is not None and child.stdout is not None
    print(json.dumps([one, other]), file=child.stdin, flush=True)
    if line := child.stdout.readline():
        return bool(json.loads(line))
    comparer.cache_clear()
    if (code := child.wait()) not in ENDED_ITSELF:
        raise RuntimeError(f"task.answers=formula: {COMPARER.name} ended with code {code}")
    distributed.note(
        f"task.seconds={seconds}: '{one[:40]}' and '{other[:40]}' cannot be compared; they count "
        f"as different"
    )
    return False


@cache
def comparer(seconds: int) -> subprocess.Popen[str]:
    """The child process with this limit; it ends with this one, at the end of its input."""
    return subprocess.Popen(
        [sys.executable, str(COMPARER), str(seconds), str(MEMORY * 2**20)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        # a fixed order of sets; no imports of files beside comparer.py
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONSAFEPATH": "1"},
        start_new_session=True,  # Ctrl-C must reach the run only
    )
