"""docs/paper_scale.md is what its script writes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from cory.report.paper import load_paper

from cory.config import parse_config
from cory.report.costs.cost import duration
from scripts import paper_scale
from tests.support.composing import compose_config


@pytest.mark.slow
def test_the_page_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper_scale, "compose", compose_config)  # the same configs, from the store
    assert paper_scale.PAGE.read_text(encoding="utf-8") == paper_scale.page()


def test_a_row_takes_the_highest_memory_and_names_all_hours() -> None:
    needs = [
        paper_scale.Need("a", 10.0, "sampling", 0.0, 3.2, 2.5),
        paper_scale.Need("b", 46.0, "forward pass", 7.0, 0.1, 8.0),
        paper_scale.Need("c", 1.0, "sampling", 0.0, 0.0, None),
    ]
    lines = list(paper_scale.table_lines({("model", "algorithm", "gpu1"): needs}, gib=48))
    cells = [cell.strip() for cell in lines[2].strip("|").split("|")]
    assert cells == [
        *("model", "algorithm", "gpu1", "46.0", "forward pass", "7", "3", "2.5 h to 8.0 h"),
        *("**no**", "b and 2 more"),
    ]
    assert "| yes |" in list(paper_scale.table_lines({("m", "a", "h"): needs}, gib=52))[2]


@pytest.mark.slow
@pytest.mark.parametrize("paper", ["cory", "maft", "maporl", "spag"])
def test_the_experiment_that_a_row_names_needs_what_the_row_says(paper: str) -> None:
    """What a change of the estimate changes first; the whole page takes a minute."""
    about = load_paper(paper_scale.CONF, paper)
    rows = [line for line in section_of(about).splitlines() if f" {paper}/" in line]
    assert rows
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        memory, phase, hours, named = cells[3], cells[4], cells[7], cells[9]
        experiment, _, others = named.partition(" and ")
        config = parse_config(compose_config(f"experiment={experiment}", "scale=paper"))
        need = paper_scale.need(experiment, config, about)
        assert (f"{need.gib:.1f}", need.phase) == (memory, phase), row
        if not others:
            assert [duration(need.hours or 0)] == hours.split(" to "), row
        elif need.hours is not None:
            low, *high = map(in_hours, hours.split(" to "))
            assert low <= in_hours(duration(need.hours)) <= max([low, *high]), row


def in_hours(text: str) -> float:
    if text == "under a minute":
        return 0.0
    number, unit = text.split()
    return float(number) / {"h": 1, "min": 60}[unit]


def section_of(about: dict[str, Any]) -> str:
    """A paper's part of the page."""
    (section,) = [
        text
        for text in paper_scale.PAGE.read_text(encoding="utf-8").split("\n## ")
        if text.startswith(f"{about['short']}\n")
    ]
    return section


@pytest.mark.parametrize("paper", ["cory", "maporl", "spag"])  # maft has experiments with endpoints
def test_the_page_counts_every_experiment(paper: str) -> None:
    """What a new experiment changes first; the whole page takes a minute."""
    about = load_paper(paper_scale.CONF, paper)
    section = section_of(about)
    named = [line.rsplit(" | ", 1)[1] for line in section.splitlines() if f" {paper}/" in line]
    counts = [1 + int((re.findall(r" and (\d+) more", text) or [0])[0]) for text in named]
    assert sum(counts) == len(list(paper_scale.experiments(paper, about)))
