r"""The inside of a process that compares formulas by math-verify.

Not imported: equality.py starts it as `python comparer.py SECONDS MEMORY`. A line comes in, a list
of two formulas in JSON; `true` or `false` goes out. A comparison that takes more than so many
seconds of processor time, as one that would write out 10^{10^{10}}, ends the process.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sys
from dataclasses import replace
from functools import lru_cache
from typing import Any

from math_verify import LatexExtractionConfig, parse, verify

READY = "ready"
# The library takes letters after a number for units: of 5 cm, but also of 2ab and 12t. So it may
# do so only where they stand apart, or are written as text.
UNIT = re.compile(r"\\(?:text|mbox|mathrm)|[0-9}] +[a-zA-Z]{2}")
WITH_UNITS = LatexExtractionConfig(boxed_match_priority=0)
WITHOUT = replace(
    WITH_UNITS, normalization_config=replace(WITH_UNITS.normalization_config, units=False)
)


def compare_formulas(seconds: int, memory: int) -> None:
    """Answer until nothing more comes in.

    memory: bytes of address space
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for standard in (1, 2):  # the libraries print
        os.dup2(nowhere, standard)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # not a handler in Python, which would wait for the end of a power: the kernel ends the process
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    print(READY, file=answers, flush=True)
    for line in sys.stdin:
        one, other = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        found = equal(one, other)
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(found), file=answers, flush=True)


def equal(one: str, other: str) -> bool:
    """Either way round: the library looks at one of them first, as at a set for a pair."""
    left, right = parsed(one), parsed(other)
    return all(
        # no limit of time, which it would keep by a handler in Python
        verify(*pair, allow_set_relation_comp=True, timeout_seconds=None)
        for pair in ((left, right), (right, left))
    )


@lru_cache(maxsize=1_000)
def parsed(formula: str) -> list[Any]:
    """What the formula says, in the library's terms; itself, where it cannot be read."""
    rules = WITH_UNITS if UNIT.search(formula) else WITHOUT
    found: list[Any] = parse(f"\\boxed{{{formula}}}", [rules], parsing_timeout=None)
    return found


if __name__ == "__main__":
    compare_formulas(*map(int, sys.argv[1:]))
