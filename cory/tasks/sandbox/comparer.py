r"""The program of a child process that compares formulas by math-verify.

Not imported: ../formulas.py starts it as `python comparer.py SECONDS MEMORY`. Each input line is a
list of two formulas in JSON, each output line `true` or `false`. A comparison of more than SECONDS
of processor time, as one that would write out 10^{10^{10}}, ends the process.
"""

import json
import os
import re
import resource
import signal
import sys
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from math_verify import LatexExtractionConfig, parse, verify

# The library takes letters after a number for units: of 5 cm, but also of 2ab and 12t. So units are
# allowed only after a space or as text.
UNIT = re.compile(r"\\(?:text|mbox|mathrm)|[0-9}] +[a-zA-Z]{2}")
WITH_UNITS = LatexExtractionConfig(boxed_match_priority=0)
WITHOUT = replace(
    WITH_UNITS, normalization_config=replace(WITH_UNITS.normalization_config, units=False)
)


def compare_formulas(seconds: int, memory: int) -> None:
    """Answers until the end of the input.

    seconds: of processor time per comparison
    memory: bytes of address space
    """
    nowhere = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    answers, sys.stdout = sys.stdout, nowhere  # to which the libraries print
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # the kernel ends the process: a handler in Python would wait for the end of a large power
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            result = equal(*json.loads(line))
        except Exception:  # the library's own, of any class: not equal, as a killed one
            result = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(result), file=answers, flush=True)


def equal(one: str, other: str) -> bool:
    """Whether the formulas are equal in both orders: the library treats the first differently."""
    left, right = parsed(one), parsed(other)
    # no time limit of the library, which uses a handler in Python
    same = partial(verify, allow_set_relation_comp=True, timeout_seconds=None)
    return bool(same(left, right) and same(right, left))


@lru_cache(maxsize=1_000)
def parsed(formula: str) -> list[Any]:
    """The formula as expressions of the library; as text, where it cannot be parsed."""
    rules = WITH_UNITS if UNIT.search(formula) else WITHOUT
    made: list[Any] = parse(f"\\boxed{{{formula}}}", [rules], parsing_timeout=None)
    return made


if __name__ == "__main__":
    compare_formulas(*map(int, sys.argv[1:]))
