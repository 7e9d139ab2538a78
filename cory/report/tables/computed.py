"""Tables for which nothing is run: every number is computed when the page is written.

The part of conf/paper/ that holds the rules has the kind's name, one of COMPUTED.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cory.report.claims.judge import Records
from cory.report.tables import game, skills

Rules = Mapping[str, Any]


@dataclass(frozen=True)
class Computed:
    """What claims may compare, as they compare runs elsewhere."""

    names: Callable[[Rules], set[str]]  # that claims call an experiment; ValueError for no rules
    records: Callable[[Rules], Records]  # under SEED
    metrics: tuple[str, ...]
    spoken: str  # in README


COMPUTED = {
    game.KIND: Computed(game.names, game.records, game.METRICS, "toy game"),
    skills.KIND: Computed(skills.names, skills.records, skills.METRICS, "skill model"),
}
