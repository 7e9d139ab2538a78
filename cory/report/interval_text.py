"""Numbers and intervals as text, with as many digits as show on which side of zero they lie."""

from collections.abc import Sequence

MOST_DIGITS = 9


def digits_for(values: Sequence[float], least: int) -> int:
    """Digits behind the point with which no value but 0 itself reads as 0; at least `least`."""
    for digits in range(least, MOST_DIGITS):
        if all(value == 0 or round(value, digits) != 0 for value in values):
            return digits
    return MOST_DIGITS


def interval_text(low: float, high: float, least: int, sign: str = "") -> str:
    """Both ends of an interval, with equally many digits; sign: as in formats, `+` or nothing."""
    digits = digits_for((low, high), least)
    return f"{_written(low, digits, sign)} to {_written(high, digits, sign)}"


def _written(value: float, digits: int, sign: str) -> str:
    return f"{0.0 if value == 0 else value:{sign}.{digits}f}"  # no negative zero
