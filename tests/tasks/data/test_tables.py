"""Files of rows that are read as they are named, and data sets that cannot be had."""

from __future__ import annotations

from pathlib import Path

import datasets
import pytest
from datasets.exceptions import DatasetGenerationError

from cory.tasks.tables import hub_table, rows_of
from tests.support.refusals import refusal


def test_a_name_is_no_pattern(tmp_path: Path) -> None:
    for folder, text in (("a[1]", "mine"), ("a1", "another")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.csv").write_text(f"prompt\n{text}\n")
    path = tmp_path / "a[1]" / "x.csv"
    for place, split in ((path, "train"), (path.parent, "x")):
        rows = rows_of("path", str(place), split)
        assert [row.values for row in rows] == [{"prompt": "mine"}]


def test_whatever_the_hub_s_library_raises_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    error = DatasetGenerationError("An error occurred")

    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    message = refusal(lambda: hub_table("me/mine", None, "train", "task.path"))
    said = f"task.path=me/mine: the hub did not give split 'train' ({error}); to work offline set"
    assert message.startswith(said)
