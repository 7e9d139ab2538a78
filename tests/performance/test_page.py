"""docs/performance.md: its tables from made-up measurements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cory.performance.machine import SQUARE
from scripts.performance_page import (
    BEGIN,
    END,
    PAGE,
    floor_table,
    goals_table,
    methods_table,
    page_with,
    parts_table,
    peers_table,
    tables_of,
)
from tests.support.warm import run_script

ABOUT = {"cpu": "a CPU", "threads": 2, "commit": "0123456789", "day": "2026-11-22",
         "versions": {"torch": "2", "transformers": "5"}}  # fmt: skip


def found(update: float) -> dict[str, Any]:
    """An iteration of 4 seconds and 300 GFLOP, of which the update's took so many seconds."""
    return {
        "seconds": {"rollout": 4 - update, "update": update, "iteration": 4.0},
        "operations": {"rollout": 1e11, "update": 2e11},
        "tokens": 1000,
        "peak_bytes": 2**30,
        "update_by_part": {"MLP": 3.0, "attention": 1.0},
        "products_alone": {"rollout": 0.5, "update": 0.75},
        "torch_operations": {"rollout": 1000, "update": 250},
    }


OWN = ABOUT | {
    "rates": {SQUARE: {"fp32": 1e11, "bf16": 2e11}},
    "workloads": {"ppo": {"fp32": found(2.0), "mixed": found(1.0)},
                  "update": {"mixed": found(2.0)}},
}  # fmt: skip


def rounds(*seconds: float) -> list[dict[str, Any]]:
    return [{"seconds": {"iteration": value}, "tokens": 1} for value in seconds]


PEERS = ABOUT | {
    "works": {
        "ppo": {
            "fp32": {
                "cory": rounds(2, 2),
                "TRL, 64 prompts at a time": rounds(4, 5),
                "TRL, 4 prompts at a time": rounds(8, 8),
            },
            "mixed": {
                "cory": rounds(1.5, 1),
                "TRL, 64 prompts at a time": rounds(9, 9),
                "TRL, 4 prompts at a time": rounds(2, 2),
            },
        }
    }
}


def rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


def test_methods_are_compared_with_the_rate_of_their_precision() -> None:
    fp32, mixed, update = rows(methods_table(OWN))
    assert fp32 == ["PPO", "float32", "4.00", "2.00", "-", "-", "2.00", "500", "300", "75%",
                    "100%", "1.0"]  # fmt: skip
    assert mixed[7:11] == ["333", "300", "38%", "100%"]  # of twice the rate
    assert update[10] == "50%"


def test_the_floor_is_products_alone_and_the_rest_is_told_by_operation() -> None:
    whole, rollout, update = rows(floor_table(OWN))[:3]
    assert whole == ["PPO", "float32", "4.00", "1.25", "31%", "1250", "2200"]
    assert rollout == ["... roll-out", "float32", "2.00", "0.50", "25%", "1000", "1500"]
    assert update == ["... update", "float32", "2.00", "0.75", "38%", "250", "5000"]
    before = {k: v for k, v in found(1.0).items() if k != "products_alone"}
    assert floor_table(OWN | {"workloads": {"ppo": {"fp32": before}}}) == ""


def test_parts_are_shares() -> None:
    assert rows(parts_table(OWN)) == [["MLP", *["75%"] * 3], ["attention", *["25%"] * 3]]


def test_ratios_of_peers() -> None:
    assert rows(peers_table(PEERS))[1] == [
        "PPO", "float32", "TRL, 64 prompts at a time", "4.50", "0.450 (0.400 to 0.500)", "2.2",
    ]  # fmt: skip


def test_goals_take_every_side_in_its_faster_precision() -> None:
    batched, default, update = rows(goals_table(OWN, PEERS))
    assert batched[1:] == ["at most 0.5", "0.287", "yes"]  # mixed ours, float32 theirs
    assert default[1:] == ["at most 0.3", "0.625", "**no**"]
    assert update[1:] == ["at least 60%", "50%", "**no**"]


def test_only_what_is_between_the_markers_changes() -> None:
    text = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert page_with(text, "new") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    with pytest.raises(ValueError, match="the page needs a line"):
        page_with("no markers", "new")
    assert page_with(PAGE.read_text(encoding="utf-8"), "new").count("new\n\n") == 1


@pytest.mark.slow
def test_the_script_writes_page_and_figure(tmp_path: Path) -> None:
    files = {"benchmark": OWN, "peers": PEERS}
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n")
    words = [f"--{name}={tmp_path / name}.json" for name in files]
    said = run_script("scripts/performance_page.py", *words, f"--page={page}")
    assert said.returncode == 0, said.stderr
    assert tables_of(OWN, PEERS) in page.read_text()
    assert (tmp_path / "performance.png").read_bytes().startswith(b"\x89PNG")
