"""Numbers that are known only from third-party notes about a paper, kept apart from printed ones.

conf/paper/<paper>.yaml: a row's `second_hand: {turn_1: 0.677, change_1: 0.095}`. They stand beside
runs at the paper's scale, under a heading of their own; no claim may be judged by them.
"""

from __future__ import annotations

import re
from typing import Any

from cory.report.markdown import NONE, markdown
from cory.report.paper import PAPER_SCALE, Table

HEAD = "second-hand, unverified"
MEANING = (
    "Second-hand: numbers that this project knows only from notes that others wrote about the "
    "paper; it has not seen them in the paper. They are targets to verify: nothing is judged by "
    "them, and agreeing with them reproduces nothing."
)


def known(table: Table) -> bool:
    """Whether any row has such a number."""
    return any("second_hand" in row for row in table.rows)


def columns(table: Table) -> list[str]:
    """The heading, where such numbers are shown."""
    return [HEAD] if table.scale == PAPER_SCALE and known(table) else []


def cells(table: Table, row: dict[str, Any]) -> list[str]:
    """One row's numbers under that heading."""
    return [said(row) for _ in columns(table)]


def meaning(table: Table) -> list[str]:
    """What the heading means, where it is shown."""
    return [MEANING for _ in columns(table)]


def said(row: dict[str, Any]) -> str:
    """A row's numbers: accuracies after turns, changes of a rate against others wrong or right."""
    parts = []
    for key, value in row.get("second_hand", {}).items():
        match = re.fullmatch(r"(turn|change)_(\d+)", key)
        if match is None:
            raise ValueError(
                f"second_hand of {row['experiment']}: {key} is neither turn_<t> nor change_<n>"
            )
        number = f"{100 * float(value):.1f} %" if match[1] == "turn" else (
            f"{100 * float(value):+.1f} points"
        )  # fmt: skip
        name = f"turn {match[2]}" if match[1] == "turn" else f"Δ{match[2]}"
        parts.append(f"{name}: {number}")
    return ", ".join(parts) or NONE


def block(table: Table) -> list[str]:
    """All of a table's second-hand numbers, for a place where no runs are shown."""
    if not columns(table):
        return []
    rows = [[row_name(row), said(row)] for row in table.rows if "second_hand" in row]
    return [MEANING, markdown(["method", HEAD], rows)]


def row_name(row: dict[str, Any]) -> str:
    """The label of a row, behind the panel that it stands in."""
    return f"{row['panel']}, {row['label']}" if "panel" in row else str(row["label"])
