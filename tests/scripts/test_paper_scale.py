"""docs/paper_scale.md is what its script writes."""

from __future__ import annotations

import re

import pytest

from cory.report.paper import load_paper
from scripts import paper_scale


@pytest.mark.slow
def test_the_page_is_up_to_date() -> None:
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


@pytest.mark.parametrize("paper", ["cory", "maporl", "spag"])  # maft has experiments with endpoints
def test_the_page_counts_every_experiment(paper: str) -> None:
    """What a new experiment changes first; the whole page takes a minute."""
    about = load_paper(paper_scale.CONF, paper)
    (section,) = [
        text
        for text in paper_scale.PAGE.read_text(encoding="utf-8").split("\n## ")
        if text.startswith(f"{about['short']}\n")
    ]
    named = [line.rsplit(" | ", 1)[1] for line in section.splitlines() if f" {paper}/" in line]
    counts = [1 + int((re.findall(r" and (\d+) more", text) or [0])[0]) for text in named]
    assert sum(counts) == len(list(paper_scale.experiments(paper, about)))
