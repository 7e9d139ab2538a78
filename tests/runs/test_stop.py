"""Requests to stop: any process's counts for all, and the reason says what is saved."""

from __future__ import annotations

import pytest

from cory import distributed
from cory.runs.stop import Stopped, StopRequest


def test_a_request_counts_once_there_is_something_to_save() -> None:
    stop = StopRequest()
    stop.check("nothing")
    with pytest.raises(KeyboardInterrupt):
        stop.ask()
    stop = StopRequest()
    stop.begun = True
    stop.ask()
    assert stop.asked() and stop.asked_anywhere()
    with pytest.raises(Stopped, match=r"^saved with 3 of 10 debates$"):
        stop.check("with 3 of 10 debates")


def test_another_process_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    flags: list[bool] = []

    def any_of(flag: bool) -> bool:
        flags.append(flag)
        return True

    monkeypatch.setattr(distributed, "any_of", any_of)
    with pytest.raises(Stopped):
        StopRequest().check("all")
    assert flags == [False]
