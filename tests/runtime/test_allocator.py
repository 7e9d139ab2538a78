"""Freed memory stays with the process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from cory.config import Config
from cory.runs.stop import StopRequest
from cory.runtime import worker

HELD = """
import ctypes, sys
from cory.runtime.allocator import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
class Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd",
        "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
    )]
library = ctypes.CDLL(None)
library.mallinfo2.restype = Mallinfo2
library.malloc.argtypes, library.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
library.free.argtypes, library.free.restype = [ctypes.c_void_p], None
def held():
    info = library.mallinfo2()
    return info.arena + info.hblkhd, info.keepcost
before, free = held()
for piece in [library.malloc(24 * 2**20) for _ in range(5)]:
    library.free(piece)
print((held()[0] - before + free) // 2**20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_freed_memory_stays_with_the_process() -> None:
    """Of five pieces of 24 MiB: what the C library still holds once they are freed, in MiB."""
    held = {
        how: subprocess.run(
            [sys.executable, "-c", HELD, how], capture_output=True, text=True, check=True
        ).stdout.strip()
        for how in ("default", "keep")
    }
    # rounded down. What was free at the heap's end before counts: the first piece begins there, and
    # where it was more than what malloc adds to a request, the heap grows by less than 120 MiB.
    assert held == {"default": "0", "keep": "120"}, held


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
