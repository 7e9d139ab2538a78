"""Checks for degenerate answers, which could exploit a learnt reward."""

from collections.abc import Sequence

BOX = "\\boxed{"


def repeats(ids: Sequence[int], longest: int, times: int) -> bool:
    """Whether a run of at most `longest` tokens occurs more than `times` times in a row."""
    for length in range(1, longest + 1):
        # `length` tokens in a row that equal the ones `length` places before are one repetition
        same = 0
        for i in range(length, len(ids)):
            same = same + 1 if ids[i] == ids[i - length] else 0
            if 1 + same // length > times:
                return True
    return False


def boxed(response: str) -> bool:
    """Whether the response has the start of an answer in \\boxed{...}."""
    return BOX in response
