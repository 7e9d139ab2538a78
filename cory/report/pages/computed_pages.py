"""How pages show what is computed without any run, by kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from cory.report.pages import game_page, skills_page
from cory.report.pages.verdicts import Verdict
from cory.report.paper import Table
from cory.report.tables import game, skills


@dataclass(frozen=True)
class ComputedPage:
    """The page of a kind, and what the overviews take from it."""

    page: Callable[[Table, Sequence[Verdict], str], str]  # table, its claims, its figure's file
    draw: Callable[[Table], Figure]
    results: Callable[[Table], list[str]]  # the numbers behind the figure
    more: str  # what else the page has


PAGES = {
    game.KIND: ComputedPage(
        game_page.game_page,
        game_page.draw_game,
        game_page.game_results,
        "Rules, other games, observations",
    ),
    skills.KIND: ComputedPage(
        skills_page.skills_page,
        skills_page.draw_skills,
        skills_page.skills_results,
        "The model's settings",
    ),
}
