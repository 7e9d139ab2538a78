"""Batches that can be resumed: those on disk are not answered again, and the rest is the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cory.models.sampling.generation import draw_uniforms
from cory.runs.jsonl import Line
from cory.runs.partial_results import PartialResults, resumable
from cory.runs.stop import Stopped


class Work:
    """Rows whose answer is the next random number; it may be told to stop before a batch."""

    def __init__(self, folder: Path, stop_before: int | None = None) -> None:
        self.results = PartialResults(folder, "settings")
        self.stream = torch.Generator().manual_seed(0)
        self.stop_before = stop_before
        self.answered: list[tuple[str, range]] = []
        self.skipped: list[tuple[str, range]] = []
        self.told: list[tuple[int, int]] = []

    def answer(self, group: str, rows: range) -> list[Line]:
        self.answered.append((group, rows))
        drawn = draw_uniforms(len(rows), 1, self.stream)
        return [
            {"row": f"{group[row]}", "drawn": float(n)} for row, n in zip(rows, drawn, strict=True)
        ]

    def skip(self, group: str, rows: range) -> None:
        self.skipped.append((group, rows))
        draw_uniforms(len(rows), 1, self.stream)

    def before_each(self, done: int, total: int) -> None:
        if done == self.stop_before:
            raise Stopped
        self.told.append((done, total))

    def lines(self, weights: str = "weights") -> list[tuple[str, list[Line]]]:
        return list(
            resumable(
                self.results,
                4,
                weights,
                ["abcde", "xyz"],
                2,
                answer=self.answer,
                skip=self.skip,
                before_each=self.before_each,
            )
        )


BATCHES = [
    ("abcde", range(0, 2)),
    ("abcde", range(2, 4)),
    ("abcde", range(4, 5)),
    ("xyz", range(0, 2)),
    ("xyz", range(2, 3)),
]


def test_every_row_once_in_batches_of_one_group(tmp_path: Path) -> None:
    work = Work(tmp_path / "x")
    lines = work.lines()
    assert work.answered == BATCHES and work.skipped == []
    assert work.told == [(0, 8), (2, 8), (4, 8), (5, 8), (7, 8)]
    assert [(g, [line["row"] for line in own]) for g, own in lines] == [
        (group, [group[row] for row in rows]) for group, rows in BATCHES
    ]
    assert work.results.lines == [line for _, own in lines for line in own]


@pytest.mark.parametrize(("stop_before", "batches"), [(0, 0), (2, 1), (4, 2), (5, 3), (7, 4)])
def test_a_stopped_run_goes_on_with_the_same_numbers(
    tmp_path: Path, stop_before: int, batches: int
) -> None:
    whole = Work(tmp_path / "whole").lines()
    with pytest.raises(Stopped):
        Work(tmp_path / "cut", stop_before).lines()
    again = Work(tmp_path / "cut")
    assert again.lines() == whole
    assert again.skipped == BATCHES[:batches] and again.answered == BATCHES[batches:]
    whole_file, cut_file = (tmp_path / name / "000004.jsonl" for name in ("whole", "cut"))
    assert cut_file.read_bytes() == whole_file.read_bytes()


def test_a_batch_that_is_not_whole_is_answered_again(tmp_path: Path) -> None:
    whole = Work(tmp_path / "x").lines()
    path = tmp_path / "x" / "000004.jsonl"
    rows = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(rows[:4]) + rows[4][:7])  # head, a batch, half of the next one
    again = Work(tmp_path / "x")
    assert again.lines() == whole
    assert again.skipped == BATCHES[:1]
    assert path.read_bytes() == b"".join(rows)


def test_results_of_other_weights_are_not_used(tmp_path: Path) -> None:
    Work(tmp_path / "x").lines()
    again = Work(tmp_path / "x")
    again.lines("other weights")
    assert again.answered == BATCHES
    third = Work(tmp_path / "x")
    third.lines("other weights")
    assert third.skipped == BATCHES


@pytest.mark.parametrize("row", [b"3\n", b"\xff\n", b"[" * 100_000 + b"\n"])
def test_batches_behind_a_damaged_line_are_answered_again(tmp_path: Path, row: bytes) -> None:
    expected = Work(tmp_path / "whole").lines()
    with pytest.raises(Stopped):
        Work(tmp_path / "cut", stop_before=7).lines()
    (path,) = (tmp_path / "cut").iterdir()
    rows = path.read_bytes().splitlines(keepends=True)
    assert len(rows) == 1 + 7  # behind a head
    rows.insert(4, row)
    path.write_bytes(b"".join(rows))
    again = Work(tmp_path / "cut")
    assert again.lines() == expected and again.skipped == BATCHES[:1]


def test_a_closed_file_is_removed_with_its_folder(tmp_path: Path) -> None:
    work = Work(tmp_path / "x")
    work.lines()
    work.results.close()
    work.results.remove(3)
    assert (tmp_path / "x" / "000004.jsonl").exists()
    work.results.remove(4)
    assert not (tmp_path / "x").exists()
