"""Requests to stop: any process's counts for all, and the reason says what is saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from cory import distributed
from cory.runs.stop import Stopped, StopRequest


def test_a_file_or_a_signal_asks(tmp_path: Path) -> None:
    stop = StopRequest(tmp_path)
    assert not stop.asked()
    stop.check("nothing")
    (tmp_path / "stop").touch()
    with pytest.raises(Stopped, match=r"^saved with 3 of 10 debates$"):
        stop.check("with 3 of 10 debates")
    (tmp_path / "stop").unlink()
    stop.signalled = True
    assert stop.asked() and stop.asked_anywhere()


def test_another_process_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags: list[bool] = []

    def any_of(flag: bool) -> bool:
        flags.append(flag)
        return True

    monkeypatch.setattr(distributed, "any_of", any_of)
    with pytest.raises(Stopped):
        StopRequest(tmp_path).check("all")
    assert flags == [False]
