"""Numbers that are known only from third-party notes about a paper, kept apart from printed ones.

conf/paper/<paper>.yaml: a row's `second_hand: {turn_1: 0.677, change_1: 0.095}`, or of benchmarks
`{geometric_mean: 0.4917}`; of the whole table, `largest: [{panel: ..., bbh: 0.3494}]`. They stand
beside runs at the paper's scale, under a heading of their own; no claim may be judged by them.
"""

import re

from cory.report.paper import PAPER_SCALE, Table
from cory.report.records.benchmarks import BENCHMARK_COLUMNS
from cory.report.tables.markdown import DASH, markdown
from cory.report.tables.numbers import PaperRow
from cory.report.tables.table import Column

HEAD = "second-hand, unverified"
MEANING = (
    "Second-hand: numbers that this project knows only from notes that others wrote about the "
    "paper; it has not seen them in the paper. They are targets to verify: nothing is judged by "
    "them, and agreeing with them reproduces nothing."
)


def second_hand(table: Table) -> list[Column]:
    """The column, where such numbers are shown."""
    known = any("second_hand" in row for row in table.rows)
    shown = table.scale == PAPER_SCALE and known
    return [Column(HEAD, text=lambda line: second_hand_text(line.row))] if shown else []


def meaning(table: Table) -> list[str]:
    """What the heading means, where it is shown."""
    return [MEANING] if second_hand(table) or largest(table) else []


def second_hand_text(row: PaperRow) -> str:
    """A row's numbers: accuracies after turns, changes of a rate against others, benchmarks."""
    parts = []
    for key, value in row.get("second_hand", {}).items():
        match = re.fullmatch(r"(turn|change)_(\d+)", key)
        if key in BENCHMARK_COLUMNS:
            parts.append(f"{BENCHMARK_COLUMNS[key]}: {100 * float(value):.2f} %")
        elif match is None:
            raise ValueError(
                f"second_hand of {row['experiment']}: {key} is neither turn_<t> nor change_<n>, "
                "and no benchmark"
            )
        elif match[1] == "turn":
            parts.append(f"turn {match[2]}: {100 * float(value):.1f} %")
        else:
            parts.append(f"Δ{match[2]}: {100 * float(value):+.1f} points")
    return ", ".join(parts) or DASH


def block(table: Table) -> list[str]:
    """All of a table's second-hand numbers, for a place where no runs are shown."""
    rows = [[row_name(row), second_hand_text(row)] for row in table.rows if "second_hand" in row]
    of_rows = [markdown(["method", HEAD], rows)] if second_hand(table) else []
    return [*meaning(table), *of_rows, *largest(table)]


def largest(table: Table) -> list[str]:
    """Second-hand: the largest value on each benchmark, where it is known but not of which row."""
    known = table.entry.get("largest", [])
    if not known or table.scale != PAPER_SCALE:
        return []
    names = [name for name in BENCHMARK_COLUMNS if any(name in one for one in known)]
    rows = [
        [one["panel"], *[f"{100 * one[name]:.2f} %" if name in one else DASH for name in names]]
        for one in known
    ]
    return [
        f"Largest value on each benchmark of any of the paper's own models ({HEAD}):",
        markdown(["base model", *[BENCHMARK_COLUMNS[name] for name in names]], rows),
    ]


def row_name(row: PaperRow) -> str:
    """The label of a row, behind the panel that it stands in."""
    return f"{row['panel']}, {row['label']}" if "panel" in row else str(row["label"])
