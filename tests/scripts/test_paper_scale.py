"""docs/paper_scale.md is what its script writes."""

from __future__ import annotations

import pytest

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
