"""Freed memory stays with the process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from cory.config import Config
from cory.runs.stop import StopRequest
from cory.runtime import worker


class Built(Exception):
    """Raised where the models would be loaded."""


def test_a_worker_keeps_it(
    config_of: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def build(config: Config, stop: StopRequest) -> None:
        calls.append("build")
        raise Built

    OmegaConf.save(OmegaConf.create(config_of().model_dump()), tmp_path / "config.yaml")
    monkeypatch.setattr(worker, "keep_freed_memory", lambda: calls.append("keep"))
    monkeypatch.setattr(worker, "start_process_group", lambda device: None)
    monkeypatch.setattr(worker, "build_parts", build)
    with pytest.raises(Built):
        worker.work(tmp_path, StopRequest())
    assert calls == ["keep", "build"]
