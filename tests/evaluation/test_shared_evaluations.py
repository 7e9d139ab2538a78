"""The store of evaluations of untrained agents: what a key depends on, damage, closed folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cory.evaluation import shared_evaluations
from cory.evaluation.shared_evaluations import SharedEvaluations, key_of
from cory.runs.partial_results import PartialResults


def evaluated(folder: Path, key: str, text: str = "said") -> Path:
    results = PartialResults(folder, key)
    results.open(-1, "weights", [1, 1])
    results.add([{"text": text}])
    results.add([{"text": "more"}])
    results.close()
    return folder / "-00001.jsonl"


def test_another_run_gets_what_one_has_found(tmp_path: Path) -> None:
    store = SharedEvaluations(tmp_path / "store")
    mine, yours = evaluated(tmp_path / "mine", "key"), tmp_path / "yours" / "-00001.jsonl"
    assert not store.fetch("key", yours) and not yours.exists()
    store.offer("key", mine)
    assert not store.fetch("other", yours)
    assert store.fetch("key", yours)
    assert yours.read_bytes() == mine.read_bytes()
    found = PartialResults(yours.parent, "key")
    assert found.open(-1, "weights", [1, 1]) == [{"text": "said"}, {"text": "more"}]
    found.close()
    assert not store.fetch("key", yours)  # what a run has is never replaced
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["key.jsonl"]


def test_what_is_damaged_is_not_believed_and_is_put_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = SharedEvaluations(tmp_path / "store")
    mine = evaluated(tmp_path / "mine", "key")
    store.offer("key", mine)
    (shared,) = (tmp_path / "store").iterdir()
    shared.write_bytes(shared.read_bytes().replace(b"more", b"less"))
    yours = tmp_path / "yours" / "-00001.jsonl"
    assert store.fetch("key", yours)
    found = PartialResults(yours.parent, "key")
    assert found.open(-1, "weights", [1, 1]) == [{"text": "said"}]
    assert "not what was written" in capsys.readouterr().err
    found.add([{"text": "more"}])
    found.close()
    store.offer("key", yours)
    assert shared.read_bytes() == mine.read_bytes()


def test_other_weights_are_not_believed(tmp_path: Path) -> None:
    place = evaluated(tmp_path / "mine", "key")
    found = PartialResults(place.parent, "key")
    assert found.open(-1, "other weights", [1, 1]) == []
    found.close()


@pytest.mark.parametrize("folder", [None, "file"])
def test_without_a_folder_nothing_is_shared(tmp_path: Path, folder: str | None) -> None:
    if folder is not None:
        (tmp_path / folder).write_text("in the way")
    store = SharedEvaluations(None if folder is None else tmp_path / folder)
    mine = evaluated(tmp_path / "mine", "key")
    store.offer("key", mine)
    assert not store.fetch("key", tmp_path / "yours" / "-00001.jsonl")
    assert sorted(path.name for path in tmp_path.rglob("*.jsonl")) == ["-00001.jsonl"]


def test_a_text_may_look_like_a_home_and_a_folder_may_hold_a_link_to_nowhere(
    tmp_path: Path,
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert key_of({"text": "~5 minutes into the film", "path": str(tmp_path)})


def test_a_key_depends_on_settings_files_code_and_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "model" / "weights"
    file.parent.mkdir()
    file.write_text("1")
    content = {"seed": 0, "model": {"path": str(tmp_path / "model")}}
    first = key_of(content)
    assert key_of({"model": {"path": str(tmp_path / "model")}, "seed": 0}) == first
    found = {first, key_of(content | {"seed": 1})}
    os.utime(file, ns=(1, 1))
    found.add(key_of(content))
    file.write_text("12")
    os.utime(file, ns=(1, 1))
    found.add(key_of(content))
    monkeypatch.setattr(shared_evaluations.torch, "get_num_threads", lambda: 77)
    found.add(key_of(content))
    monkeypatch.setattr(shared_evaluations, "_code", lambda: "other code")
    found.add(key_of(content))
    monkeypatch.setattr(shared_evaluations, "versions", lambda: {"torch": "0"})
    found.add(key_of(content))
    assert len(found) == 7
