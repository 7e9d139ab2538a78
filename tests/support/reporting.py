"""From made-up runs to a page, as tests of the report need it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from omegaconf import DictConfig

from cory.report.pages.write import Places, checked, gather_tables, write_page
from cory.report.records.collect import CountedRuns
from tests.support.composing import CONF, compose_config
from tests.support.made_up_runs import WriteRun, lines_of
from tests.support.warm import run_script as run_script

ROOT = CONF.parent


@cache
def composed(experiment: str, scale: str) -> DictConfig:
    small = [] if scale == "paper" else [f"scale={scale}"]  # the default is stored already
    return compose_config(f"experiment={experiment}", *small)


def places_in(folder: Path) -> Places:
    return Places(CONF, folder / "docs", ROOT / "docs" / "metrics.md")


def write_all(
    write_run: WriteRun, seeds: tuple[int, ...] = (0, 1, 2, 3, 4), ppo_score: float = 2.0
) -> None:
    """Runs that agree with most claims of fig. 3: PPO pays with KL for the same reward."""
    for seed in seeds:
        more = 0.01 * (seed - 2)  # seeds differ, or no interval could be formed
        write_run("cory/imdb_ppo", seed, lines_of(ppo_score, 20.0 + more, 1, seed))
        write_run("cory/imdb_ppo_xl", seed, lines_of(2.5, 30.0 - more, 1, seed))
        write_run("cory/imdb_cory", seed, lines_of(2.0, 4.0 + 2 * more, 2, seed))


def made(tmp_path: Path, name: str = "fig3", allow_dirty: bool = False) -> tuple[CountedRuns, str]:
    """What counts for a table at small scale, and its page, after gathering."""
    places = places_in(tmp_path)
    table = checked(places, "cory", name, "small")
    gather_tables([table], places, tmp_path / "outputs", allow_dirty)
    shown, path = write_page(table, places, composed)
    return shown.found, path.read_text() if path is not None else ""


def row(text: str, start: str) -> list[str]:
    """The cells of the only table row that starts with `start`."""
    (line,) = [x for x in text.splitlines() if x.startswith(f"| {start}")]
    return [cell.strip() for cell in line.strip("| ").split(" | ")]
