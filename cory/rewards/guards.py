"""What an answer must not be, lest a judge be pleased by something else than a good answer."""

from __future__ import annotations

from collections.abc import Sequence

BOX = "\\boxed{"


def repeats(ids: Sequence[int], longest: int, times: int) -> bool:
    """Whether some run of at most `longest` tokens is said more than `times` times in a row."""
    for length in range(1, longest + 1):
        said = 1
        # ids[i] equals the token one run before: so many in a row make one more repetition
        same = 0
        for i in range(length, len(ids)):
            same = same + 1 if ids[i] == ids[i - length] else 0
            said = max(said, 1 + same // length)
            if said > times:
                return True
    return False


def boxed(response: str) -> bool:
    """Whether the response has an answer in \\boxed{...}."""
    return BOX in response
