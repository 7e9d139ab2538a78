"""Pieces of Markdown."""

from collections.abc import Sequence

import numpy as np

DASH = "-"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def plus_minus(values: Sequence[float], digits: int = 2) -> str:
    """Mean ± sample standard deviation; the mean alone for one value; a dash for none."""
    if not values:
        return DASH
    spread = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}"


def percent(values: Sequence[float]) -> str:
    """Shares as per cent."""
    return f"{plus_minus([100 * value for value in values], 1)} %" if values else DASH


def cell(text: str, most: int = 0) -> str:
    """Any text inside a table's cell, as it is, cut after `most` characters (0: whole)."""
    if most and len(text) > most:
        text = f"{text[:most]} [...]"
    for raw, safe in (("\\", "\\\\"), ("|", "\\|"), ("`", "\\`"), ("*", "\\*"), ("_", "\\_"),
                      ("<", "&lt;"), (">", "&gt;"), ("[", "\\["), ("$", "\\$")):  # fmt: skip
        text = text.replace(raw, safe)
    return " ".join(text.split()) or "(nothing)"
