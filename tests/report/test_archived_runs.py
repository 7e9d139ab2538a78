"""Pages of results have a record of every run that they name, but for those known to be missing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cory.report.pages.write import tables_of
from tests.report.test_paper_file import NAMED
from tests.support.composing import CONF
from tests.support.reporting import ROOT, places_in

# experiments with seeds that have not run, on pages that have runs of others; findings say so, too
NOT_RUN = {
    *("cory/imdb_cory_no_transfer", "cory/imdb_cory_no_exchange"),  # with SmolLM2
}


def named_runs(paper: str, scale: str) -> Iterator[tuple[str, int]]:
    """Experiment and seed of every run that the written pages of one scale are about."""
    places = places_in(CONF)
    for table in tables_of(places, paper, scale):
        written = (ROOT / "docs/results" / paper / f"{table.page}.md").exists()
        if table.has_runs and written:
            for experiment in (*table.shown, *table.control_runs):
                yield from ((experiment, seed) for seed in table.seeds)


@pytest.mark.parametrize("paper", NAMED)
def test_every_run_that_a_page_names_is_archived(paper: str) -> None:
    missing: set[tuple[str, int]] = set()
    for scale in ("small", "medium"):
        records = ROOT / "docs/results" / paper / "records" / scale
        kept = {(f"{paper}/{p.parent.name}", int(p.stem[4:])) for p in records.glob("*/seed*.json")}
        missing |= {run for run in named_runs(paper, scale) if run not in kept}
    unknown = {run for run in missing if run[0] not in NOT_RUN}
    assert not unknown
    assert {name for name, _ in missing} == {n for n in NOT_RUN if n.startswith(f"{paper}/")}
