"""A smaller test set than `evaluation.prompts` asks for is asked as a whole."""

import sys
from functools import cache

from cory import distributed


def at_most(count: int | None, there: int, what: str) -> int | None:
    """The number of prompts that an evaluation asks; a note says where there are fewer.

    what: what they are, as `test questions`
    """
    if count is not None and count > there:
        _note(count, there, what)
        return there
    return count


@cache  # once for a process, however often prompts are asked for
def _note(count: int, there: int, what: str) -> None:
    if distributed.rank() == 0:
        print(
            f"note: evaluation.prompts={count}: there are only {there} {what}; all are asked",
            file=sys.stderr,
        )
