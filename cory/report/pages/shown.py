"""What the overviews show: tables and figures at each scale, with runs, picture and verdicts."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cory.report.pages.verdicts import ClaimVerdict, controls, verdicts
from cory.report.paper import Table
from cory.report.records.collect import CountedRuns
from cory.report.tables.markdown import DASH


@dataclass(frozen=True)
class Shown:
    """One table or figure at one scale, as the overviews show it."""

    table: Table
    found: CountedRuns
    image: str | None  # file name beside its page

    @property
    def ran(self) -> bool:
        """Whether there is anything to show: runs, or runs that were refused."""
        return bool(self.found.runs or self.found.any_refused)

    @cached_property
    def judged(self) -> list[ClaimVerdict]:
        """Its claims."""
        return verdicts(self.table, self.found)

    @cached_property
    def controls(self) -> list[ClaimVerdict]:
        """Its positive controls."""
        return controls(self.table, self.found)

    @property
    def page(self) -> str:
        """Its page, from docs/results/."""
        return f"{self.table.paper}/{self.table.page}.md"

    @property
    def work(self) -> str:
        """How many runs count, and how long they took one after another."""
        walls = [run.record["wall_s"] for run in self.found.runs]
        runs = f"{len(walls)} run{'s' if len(walls) > 1 else ''}"
        return f"{runs}, {duration(sum(walls) / 3600)}" if walls else DASH

    def picture(self, name: str) -> list[str]:
        """Its figure, called by a name."""
        return [f"![{name}]({self.table.paper}/{self.image})"] if self.image else []


# table -> scale -> what there is
Everything = Mapping[str, Mapping[str, Shown]]


def first_of(scales: Mapping[str, Shown]) -> Shown:
    """A table at its first scale, for what is the same at every scale."""
    return next(iter(scales.values()))


def about(tables: Everything) -> Mapping[str, Any]:
    """The head of a paper's file."""
    return first_of(next(iter(tables.values()))).table.about


def scales_of(everything: Mapping[str, Everything]) -> list[str]:
    """The scales that tables are shown at, some of them by a few tables only."""
    every = (scales for tables in everything.values() for scales in tables.values())
    return list(dict.fromkeys(scale for scales in every for scale in scales))


def duration(hours: float) -> str:
    """Hours as text; minutes below two hours."""
    if hours < 1 / 60:
        return "under a minute"
    return f"{60 * hours:.0f} min" if hours < 2 else f"{hours:.1f} h"
