"""Batches that can be resumed: those on disk are not answered again, and the rest is the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cory.models.sampling.generation import draw_uniforms
from cory.runs.jsonl import Line
from cory.runs.partial_results import resumable
from cory.runs.stop import Stopped


class Work:
    """Eight rows, each the next random number; it may be told to stop before a batch."""

    def __init__(self, folder: Path, stop_before: int | None = None) -> None:
        self.path = folder / "000004.jsonl"
        self.stream = torch.Generator().manual_seed(0)
        self.stop_before = stop_before
        self.answered: list[range] = []
        self.skipped: list[range] = []
        self.told: list[tuple[int, int]] = []

    def answer(self, rows: range) -> list[Line]:
        self.answered.append(rows)
        drawn = draw_uniforms(len(rows), 1, self.stream)
        return [{"row": row, "drawn": float(n)} for row, n in zip(rows, drawn, strict=True)]

    def skip(self, rows: range) -> None:
        self.skipped.append(rows)
        draw_uniforms(len(rows), 1, self.stream)

    def before_each(self, done: int, total: int) -> None:
        if done == self.stop_before:
            raise Stopped
        self.told.append((done, total))

    def lines(self, weights: str = "weights") -> list[Line]:
        callbacks = {"answer": self.answer, "skip": self.skip, "before_each": self.before_each}
        return resumable(self.path, weights, 8, 3, **callbacks)  # type: ignore[arg-type]


BATCHES = [range(3), range(3, 6), range(6, 8)]


def test_every_row_once(tmp_path: Path) -> None:
    work = Work(tmp_path / "x")
    assert [line["row"] for line in work.lines()] == list(range(8))
    assert work.answered == BATCHES and work.skipped == []
    assert work.told == [(0, 8), (3, 8), (6, 8)]


@pytest.mark.parametrize("batches", [0, 1, 2])
def test_a_stopped_run_goes_on_with_the_same_numbers(tmp_path: Path, batches: int) -> None:
    whole = Work(tmp_path / "whole")
    expected = whole.lines()
    with pytest.raises(Stopped):
        Work(tmp_path / "cut", 3 * batches).lines()
    again = Work(tmp_path / "cut")
    assert again.lines() == expected
    assert again.skipped == BATCHES[:batches] and again.answered == BATCHES[batches:]
    assert again.path.read_bytes() == whole.path.read_bytes()


@pytest.mark.parametrize("damage", [b"", b"3\n", b"\xff\n", b"[" * 100_000 + b"\n"])
def test_batches_that_are_not_whole_are_answered_again(tmp_path: Path, damage: bytes) -> None:
    """Cut off within a line, or behind a damaged one."""
    work = Work(tmp_path / "x")
    expected = work.lines()
    content = work.path.read_bytes()
    rows = content.splitlines(keepends=True)
    # a head, a batch, a line of the next one, and what is left
    rest = damage + b"".join(rows[5:]) if damage else rows[5][:7]
    work.path.write_bytes(b"".join(rows[:5]) + rest)
    again = Work(tmp_path / "x")
    assert again.lines() == expected and again.skipped == BATCHES[:1]
    assert work.path.read_bytes() == content


def test_results_of_other_weights_are_not_used(tmp_path: Path) -> None:
    Work(tmp_path / "x").lines()
    again = Work(tmp_path / "x")
    again.lines("other weights")
    assert again.answered == BATCHES
    third = Work(tmp_path / "x")
    third.lines("other weights")
    assert third.skipped == BATCHES
