"""Freed memory stays with the process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from cory.config import Config
from cory.runs.stop import StopRequest
from cory.runtime import worker

FAULTS = """
import resource, sys, torch
from cory.runtime.allocator import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
def passes(count):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(count):
        held = [torch.ones(2**20) for _ in range(32)]  # 4 MiB each
        del held
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
passes(3)
print(passes(20))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_pages_are_not_fetched_again_at_every_pass() -> None:
    """Twenty passes over 128 MiB, which are 32,768 pages."""
    faults = {
        how: int(
            subprocess.run(
                [sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True
            ).stdout
        )
        for how in ("default", "keep")
    }
    assert faults["keep"] < 1000 < 20 * 10_000 < faults["default"]


class Built(Exception):
    """Raised where the models would be loaded."""


def test_a_worker_keeps_it(
    config_of: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def build(config: Config) -> None:
        calls.append("build")
        raise Built

    OmegaConf.save(OmegaConf.create(asdict(config_of())), tmp_path / "config.yaml")
    monkeypatch.setattr(worker, "keep_freed_memory", lambda: calls.append("keep"))
    monkeypatch.setattr(worker, "start_process_group", lambda device: None)
    monkeypatch.setattr(worker, "build_parts", build)
    with pytest.raises(Built):
        worker.work(tmp_path, StopRequest(tmp_path))
    assert calls == ["keep", "build"]
