"""Requests to stop: any process's counts for all, and the reason says what is saved."""

import os
import signal
from pathlib import Path

import pytest

from cory import distributed
from cory.runs import signals
from tests.support.commands import until


@pytest.fixture(autouse=True)
def command(tmp_path: Path, monkeypatch, handlers: None) -> None:
    monkeypatch.setenv(signals.STOP_FILE, str(tmp_path / "stop"))
    monkeypatch.setattr(signals, "_received", [])
    monkeypatch.setattr(signals, "_phase", [])
    signals.listen()


def test_a_signal_asks_all_processes_of_a_command() -> None:
    signals.leave_if_asked("nothing")
    signals.enter(signals.SAVES)
    os.kill(os.getpid(), signal.SIGTERM)
    until(signals.stopping)
    signals._received.clear()  # as in a process that it starts
    assert signals.stopping_anywhere() and signals.stop_code() == 143
    with pytest.raises(signals.Stopped, match=r"^saved with 3 of 10 debates$"):
        signals.leave_if_asked("saved with 3 of 10 debates")


def test_where_there_is_nothing_to_save_a_signal_ends_the_process(monkeypatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    signals.enter(signals.BUILDS)
    os.kill(os.getpid(), signal.SIGINT)
    until(lambda: bool(codes))
    assert codes == [130]


def test_another_process_asks(monkeypatch) -> None:
    flags: list[bool] = []

    def any_of(flag: bool) -> bool:
        flags.append(flag)
        return True

    monkeypatch.setattr(distributed, "any_of", any_of)
    with pytest.raises(signals.Stopped):
        signals.leave_if_asked("all")
    assert flags == [False]
