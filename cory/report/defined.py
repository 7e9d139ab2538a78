"""Which numbers a claim may be about: docs/metrics.md defines them, and the archive keeps them."""

from __future__ import annotations

import re
from pathlib import Path

from cory.report.claims.judge import RELATIONS, metrics, operands, require_measure
from cory.report.paper import Table
from cory.report.records import archive
from cory.report.tables.computed import COMPUTED

OPPONENTS = ("itself", "start", "scripted", "random", "endpoint", "im", r"spag_\d+")
ROLES = ("attacker", "defender", "guesser", "oracle")
WHO = re.compile(  # the last part of a metric's name
    r"agent_\d+(_turn_\d+)?|turn_\d+|pioneer|observer(_\d+)?|team|natural|balanced|within|"
    r"(generation|critic)(_\d+)?|single|" + "|".join(OPPONENTS)
)
# what stands for a part of a name in docs/metrics.md; anything else for a number
PLACES = {"<role>": f"({'|'.join(ROLES)})"}


def check_claims(table: Table, defined: set[str]) -> None:
    """ValueError for a claim over a metric that nobody defines, or with an unknown word.

    defined: the names of docs/metrics.md, see `defined_metrics`
    """
    for claim in table.claims:
        where = f"{table.paper} {table.name}: claim {claim['id']}"
        for metric in sorted(metrics(claim)):
            if table.kind in COMPUTED:
                if metric not in COMPUTED[table.kind].metrics:
                    words = ", ".join(COMPUTED[table.kind].metrics)
                    raise ValueError(f"{where}: metric={metric} is none of {words}")
                continue
            if not is_defined(metric, defined):
                raise ValueError(f"{where}: docs/metrics.md does not define {metric}")
            if not archive.kept(metric):
                raise ValueError(f"{where}: the archive does not keep {metric}")
        for operand in operands(claim):
            if "at" in operand:
                try:
                    require_measure(operand["at"])
                except ValueError as error:
                    raise ValueError(f"{where}: {error}") from None
        for part in claim["parts"]:
            if part["relation"] not in RELATIONS:
                words = ", ".join(RELATIONS)
                raise ValueError(f"{where}: relation must be one of {words}")


def defined_metrics(doc: Path) -> set[str]:
    """The names in the first column of the tables of docs/metrics.md, with their PLACES."""
    text = doc.read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {name for cell in rows for name in re.findall(r"`([^`]+)`", cell)}


def is_defined(metric: str, defined: set[str]) -> bool:
    """Whether docs/metrics.md has the metric, alone or for an agent, a role, an opponent, ..."""
    base, _, who = metric.rpartition("/")
    names = {metric, base} if WHO.fullmatch(who) else {metric}
    return any(re.fullmatch(_pattern(name), own) for name in defined for own in names)


def _pattern(name: str) -> str:
    """A name of docs/metrics.md as an expression."""
    return re.sub(r"<\w+>", lambda place: PLACES.get(place[0], r"\d+"), re.escape(name))
