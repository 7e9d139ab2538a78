"""Debates and their accuracy as text for a terminal."""

import re
import textwrap
from collections.abc import Sequence

from cory.functional.statistics import binomial_se
from cory.runs.jsonl import Line

WIDTH = 100  # characters of a line


def accuracy_lines(lines: Sequence[Line]) -> list[str]:
    """Accuracy of first answers and votes, with standard errors; none without right answers."""
    known = [line["right"] for line in lines if line["right"] is not None]
    if not known:
        return []
    last = len(known[0]["votes"]) - 1
    of_each = {
        "first agent, first answer": [float(right["first"]) for right in known],
        "vote of turn 1": [right["votes"][0] for right in known],
        f"vote of turn {last + 1}": [right["votes"][last] for right in known],
    }
    found = []
    for name, values in of_each.items():
        share = sum(values) / len(values)
        error = binomial_se(share, len(values))
        found.append(f"{name:26}{100 * share:6.2f} ± {100 * error:.2f} % of {len(values)}")
    return found


def readable(line: Line) -> str:
    """A debate as text: the answers of each round, and the votes."""
    parts = []
    of_each_turn = zip(line["turns"], line["votes"], line["agreeing"], strict=True)
    for number, (turns, vote, agreeing) in enumerate(of_each_turn, 1):
        parts.append(f"Turn {number}")
        for agent, turn in enumerate(turns):
            parts.append(f"  agent {agent} ({model(turn)}): {turn['read'] or 'no answer read'}")
            if turn["summary"] is not None:
                parts.append(wrapped(f"was told: {turn['summary']}", "    | "))
            parts.append(wrapped(turn["response"], "    "))
        parts.append(f"  vote: {vote or 'none'} ({agreeing} of {len(turns)})\n")
    right = "" if line["right"] is None else f" (right: {line['answer']})"
    return "\n".join([*parts, f"Answer: {line['vote'] or 'none'}{right}"])


def model(turn: Line) -> str:
    """Whose weights spoke, in the words of a run's summary: `generation agent 0`, `base`."""
    return re.sub(r"(generation|critic)_(\d+)", r"\1 agent \2", str(turn["agent"]))


def wrapped(text: str, indent: str) -> str:
    """Wrap long lines for a terminal; the text's own line breaks stay."""
    lines = text.strip().splitlines() or ["(nothing)"]
    return "\n".join(
        textwrap.fill(line, WIDTH, initial_indent=indent, subsequent_indent=indent) or indent
        for line in lines
    )
