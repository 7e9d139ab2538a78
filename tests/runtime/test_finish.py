"""The end of a run: what is written before what is removed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cory.runs.run_dir import METRICS, WriteError
from cory.runtime import worker
from tests.support.composing import parsed


class Ending:
    """Everything that the end of a run calls; a step that fails is named."""

    def __init__(self, run_dir: Path, failing: str = "") -> None:
        self.done: list[str] = []
        self.failing = failing
        self.parts: Any = SimpleNamespace(config=parsed(f"run_dir={run_dir}"))
        (run_dir / METRICS).touch()

    def step(self, name: str) -> None:
        if name == self.failing:
            raise WriteError(f"no room for {name}")
        self.done.append(name)

    def finish(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(worker, "export_agents", lambda *_: self.step("agents"))
        monkeypatch.setattr(worker, "put_state_away", lambda *_: self.step("state"))
        best: Any = SimpleNamespace(finish=lambda: self.step("best"))
        ours: Any = SimpleNamespace(finish=lambda: self.step("record"))
        algorithm: Any = SimpleNamespace(agents={})
        checkpoints: Any = None
        worker.finish(algorithm, self.parts, ours, best, checkpoints)


def test_the_training_state_goes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ending = Ending(tmp_path)
    ending.finish(monkeypatch)
    assert ending.done == ["agents", "record", "best", "state"]


@pytest.mark.parametrize("failing", ["agents", "record", "best"])
def test_it_stays_where_something_cannot_be_written(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending = Ending(tmp_path, failing)
    with pytest.raises(WriteError, match=failing):
        ending.finish(monkeypatch)
    assert "state" not in ending.done
    if failing == "agents":  # a run with a record counts as finished
        assert "record" not in ending.done
